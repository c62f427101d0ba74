// The part of a form that says what is called: planned delays while somebody types, a body that fits the method, and a test of
// the call. Without it the delays are those of the page, and the test is a page of its own.

const PAUSE_MS = 200;
const FRAGMENT = { headers: { "X-Fragment": "1" }, redirect: "error" };
// Methods that mostly come without a body.
const BODYLESS = ["GET", "DELETE"];

async function fragment(address, id, options = {}) {
  const response = await fetch(address, { ...FRAGMENT, ...options });
  if (!response.ok) throw new Error(String(response.status));
  const part = new DOMParser().parseFromString(await response.text(), "text/html").getElementById(id);
  if (!part) throw new Error("no such part");
  return part;
}

function watchDelays(form) {
  let asked = 0;
  let waiting = 0;
  const fields = form.querySelectorAll("[data-planned]");
  const show = async () => {
    const place = document.getElementById("planned-delays");
    const mine = ++asked;
    const query = new URLSearchParams([...fields].map((field) => [field.name, field.value]));
    const part = await fragment(`${place.dataset.plannedUrl}?${query}`, place.id);
    // Written into the same element, whose changes screen readers tell.
    if (mine === asked) place.replaceChildren(...part.childNodes);
  };
  for (const field of fields) {
    field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => show().catch(() => {}), PAUSE_MS);
    });
  }
}

function watchMethod(form) {
  const { method, body_kind: kind, payload } = form.elements;
  method.addEventListener("change", () => {
    const isUntouched = ["", "{}"].includes(payload.value.trim());
    if (BODYLESS.includes(method.value) && kind.value === "json" && isUntouched) kind.value = "none";
    else if (!BODYLESS.includes(method.value) && kind.value === "none") kind.value = "json";
  });
}

function watchTest(form, button) {
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    const data = new FormData(form, button);
    const label = button.querySelector("span");
    const words = label.textContent;
    const place = () => document.getElementById("callback-test");
    button.disabled = true;
    label.textContent = "Calling…";
    try {
      const part = await fragment(button.formAction.split("#")[0], "callback-test", { method: "POST", body: data });
      place().replaceChildren(...part.childNodes);
      for (const copy of place().querySelectorAll("[data-copy]")) copy.hidden = !navigator.clipboard;
    } catch {
      const said = document.createElement("p");
      said.className = "field-error";
      said.textContent = "The test could not be made: Punctual did not answer, or you are signed out.";
      place().replaceChildren(said);
    }
    label.textContent = words;
    button.disabled = false;
    // There a screen reader goes on reading.
    place().focus({ preventScroll: true });
    place().scrollIntoView({ block: "nearest" });
  });
}

for (const form of document.querySelectorAll("form[data-callback]")) {
  watchDelays(form);
  watchMethod(form);
  for (const button of form.querySelectorAll("[data-test-callback]")) watchTest(form, button);
}
