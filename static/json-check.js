// Says where a text is not the JSON that Punctual takes: the rules of app/api/strict_json.py, for who is still typing.
// The server has the last word; nothing here evaluates what is typed.

const MAX_DEPTH = 63; // 64 with the object of the request that the payload stands in
const MAX_INTEGER_DIGITS = 4300;
const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
const WORD = /[A-Za-z_$][A-Za-z0-9_$]*/y;

class Refusal extends Error {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}

/** null when the text is taken, else {message, line, column}, both from 1. An empty text is refused at its beginning. */
export function check(text) {
  try {
    new Reader(text).readAll();
    return null;
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { message: error.message, ...position(text, error.at) };
  }
}

function position(text, at) {
  const before = text.slice(0, at);
  const start = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: [...before.slice(start)].length + 1 };
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  readAll() {
    this.skip();
    if (this.at === this.text.length) throw new Refusal("A value is missing, such as {} or null", this.at);
    this.readValue(0);
    this.skip();
    if (this.at < this.text.length) throw new Refusal("Text after the end of the value", this.at);
  }

  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  skip() {
    this.take(SPACE);
  }

  next() {
    return this.text[this.at];
  }

  readValue(depth) {
    const first = this.next();
    if (first === "{") this.readMembers(depth + 1);
    else if (first === "[") this.readItems(depth + 1);
    else if (first === '"') this.readString();
    else if (first === "-" || (first >= "0" && first <= "9")) this.readNumber();
    else this.readWord();
  }

  enter(depth) {
    if (depth > MAX_DEPTH) throw new Refusal("Nested too deep", this.at);
    this.at += 1;
    this.skip();
  }

  readMembers(depth) {
    const names = new Set();
    this.enter(depth);
    if (this.leave("}")) return;
    for (;;) {
      const start = this.at;
      if (this.next() !== '"') throw new Refusal("A name in double quotes is missing", this.at);
      const name = this.readString();
      if (names.has(name)) throw new Refusal("This name comes twice in one object", start);
      names.add(name);
      this.skip();
      if (this.next() !== ":") throw new Refusal("A colon is missing", this.at);
      this.at += 1;
      this.skip();
      this.readValue(depth);
      this.skip();
      if (this.leave("}")) return;
      this.comma("}");
    }
  }

  readItems(depth) {
    this.enter(depth);
    if (this.leave("]")) return;
    for (;;) {
      this.readValue(depth);
      this.skip();
      if (this.leave("]")) return;
      this.comma("]");
    }
  }

  leave(end) {
    if (this.next() !== end) return false;
    this.at += 1;
    return true;
  }

  comma(end) {
    if (this.next() !== ",") throw new Refusal(`A comma or ${end} is missing`, this.at);
    const at = this.at;
    this.at += 1;
    this.skip();
    if (this.next() === end) throw new Refusal("A comma stands before the end", at);
  }

  readString() {
    const start = this.at;
    this.at += 1;
    for (;;) {
      this.take(PLAIN);
      if (this.at >= this.text.length) throw new Refusal("A string is not closed", start);
      if (this.next() === '"') break;
      if (this.next() !== "\\") throw new Refusal("A control character stands in a string: write it as \\n or \\u000a", this.at);
      if (!this.take(ESCAPE)) throw new Refusal("A backslash stands before something it cannot escape", this.at);
    }
    this.at += 1;
    const value = JSON.parse(this.text.slice(start, this.at));
    if (/[\ud800-\udfff]/u.test(value)) throw new Refusal("A string holds half of a surrogate pair", start);
    return value;
  }

  readNumber() {
    const start = this.at;
    const found = this.take(NUMBER);
    if (!found) throw new Refusal("A number is not complete", start);
    if (/[0-9.eE+-]/.test(this.next() ?? "")) throw new Refusal("A number is written in a way JSON does not know", start);
    const isInteger = found[1] === undefined && found[2] === undefined;
    if (isInteger && found[0].replace("-", "").length > MAX_INTEGER_DIGITS) throw new Refusal("An integer has too many digits", start);
    if (!isInteger && !Number.isFinite(Number(found[0]))) throw new Refusal("A number is too large: no double can hold it", start);
  }

  readWord() {
    const start = this.at;
    const word = this.take(WORD)?.[0];
    if (word === "true" || word === "false" || word === "null") return;
    if (word === "NaN" || word === "Infinity") throw new Refusal(`${word} is not JSON`, start);
    throw new Refusal(word ? "A word is not in double quotes" : "A value is missing", start);
  }
}

/** Checks a field while it is typed in, and says what is wrong in the element that its data-json names. */
export function watch(field) {
  const says = document.getElementById(field.dataset.json);
  if (!says) return;
  let waiting = 0;
  const look = () => {
    const found = check(field.value);
    field.classList.toggle("is-invalid", found !== null && field.value.trim() !== "");
    field.setAttribute("aria-invalid", String(found !== null));
    says.dataset.state = found ? "bad" : "good";
    says.textContent = found ? `${found.message}, at line ${found.line}, column ${found.column}.` : "This is JSON.";
  };
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(look, field.value.length > 100_000 ? 600 : 120);
  });
  look();
}
