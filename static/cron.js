// The form of a cron entry: its next times and errors while somebody types. Without it a button shows them.

import { watch } from "./json-check.js";
import { showTimes } from "./time.js";

const PAUSE_MS = 200;

document.addEventListener("change", (event) => {
  if (event.target.matches("form.filters select")) event.target.form.requestSubmit();
});
// A form that is on its way is not sent once more; back on its page, it can be.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches("form[data-once]") || event.submitter?.name === "preview") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "1";
});
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

let asked = 0;
let waiting = 0;

async function preview(form) {
  const place = document.getElementById("cron-preview");
  const mine = ++asked;
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("[data-preview], [name=entry]")) query.set(field.name, field.value);
  const response = await fetch(`${place.dataset.previewUrl}?${query}`, { headers: { "X-Fragment": "1" }, redirect: "error" });
  if (!response.ok || mine !== asked) return;
  const answer = new DOMParser().parseFromString(await response.text(), "text/html").getElementById(place.id);
  if (!answer) return;
  document.getElementById("cron-preview").replaceWith(answer);
  showTimes(answer);
}

for (const form of document.querySelectorAll("form.cron-form")) {
  form.classList.add("has-script");
  for (const field of form.querySelectorAll("[data-preview]")) {
    field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => preview(form).catch(() => {}), PAUSE_MS);
    });
  }
  // Typed before this script had come, or kept by the browser on the way back.
  if ([...form.querySelectorAll("input[data-preview]")].some((field) => field.value !== field.defaultValue)) {
    preview(form).catch(() => {});
  }
  for (const field of form.querySelectorAll("[data-json]")) watch(field);
}
