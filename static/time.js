// <time data-form> in the viewer's zone: relative, countdown, clock, full. Counts from the server's time, not this host's.

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const loaded = performance.now();
const health = document.querySelector("[data-now]");
const told = health ? Date.parse(health.dataset.now) : Date.now();
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function now() {
  return told + (performance.now() - loaded);
}

export function tellZone() {
  const kept = document.cookie.split("; ").find((part) => part.startsWith("punctual_tz="));
  if (!ZONE || kept === `punctual_tz=${ZONE}`) return;
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `punctual_tz=${ZONE}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  for (const element of document.querySelectorAll("[data-zone]")) element.textContent = ZONE;
}

function span(seconds, parts) {
  const words = [];
  let rest = Math.floor(seconds);
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || (unit === "s" && !words.length)) words.push(`${count} ${unit}`);
    if (words.length === parts) break;
  }
  return words.join(" ");
}

function inWords(form, at) {
  const seconds = (at - now()) / 1000;
  if (form === "countdown") return seconds > 0 ? `in ${span(seconds, 2)}` : "now";
  if (form === "relative") {
    if (Math.abs(seconds) < 1) return "now";
    return seconds > 0 ? `in ${span(seconds, 1)}` : `${span(-seconds, 1)} ago`;
  }
  const date = new Date(at);
  if (form === "clock") return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return date.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

export function showTimes(root) {
  for (const element of root.querySelectorAll("time[data-form]")) {
    const at = Date.parse(element.dateTime);
    if (Number.isNaN(at)) continue;
    const words = inWords(element.dataset.form, at);
    if (element.textContent !== words) element.textContent = words;
  }
}
