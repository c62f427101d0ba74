// The pages about jobs: ticks, filters that apply at once, and the form. Everything works without it as well.

import { watch } from "./json-check.js";

function ticks() {
  return [...document.querySelectorAll("input[data-tick]")];
}

// Only where it differs: the observer below would see its own work for ever.
function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

function showTicks() {
  const bar = document.querySelector("form[data-bulk]");
  if (!bar) return;
  const all = ticks();
  const ticked = all.filter((tick) => tick.checked).length;
  const label = bar.querySelector("[data-ticked]");
  const words = ticked ? `${ticked} ticked:` : "Tick jobs to act on them";
  if (label.textContent !== words) label.textContent = words;
  for (const button of bar.querySelectorAll("button[name=action]")) setHidden(button, ticked === 0);
  const box = bar.querySelector("[data-tick-all]");
  setHidden(box.closest("label"), all.length === 0);
  box.checked = ticked > 0 && ticked === all.length;
  box.indeterminate = ticked > 0 && ticked < all.length;
}

document.addEventListener("change", (event) => {
  const input = event.target;
  if (input.matches("[data-tick-all]")) for (const tick of ticks()) tick.checked = input.checked;
  if (input.matches("[data-tick], [data-tick-all]")) showTicks();
  if (input.matches("form.filters select, form.filters [data-apply]")) input.form.requestSubmit();
  if (input.matches("[data-when]")) choose(input.dataset.when);
});

// Empty fields would stand in the address that is shared.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("form.filters")) {
    for (const field of form.querySelectorAll("input, select")) if (field.value === "") field.disabled = true;
    setTimeout(() => { for (const field of form.querySelectorAll(":disabled")) field.disabled = false; });
  }
  if (form.matches("form[data-once]")) {
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "1";
  }
});
// Back to a form that was sent: it can be sent again.
window.addEventListener("pageshow", () => {
  for (const form of document.querySelectorAll("form[data-once]")) delete form.dataset.sent;
});

function choose(when) {
  const radio = document.querySelector(`input[name=when][value=${when}]`);
  if (radio) radio.checked = true;
}

function watchForm(form) {
  for (const field of form.querySelectorAll("[data-when]")) field.addEventListener("input", () => choose(field.dataset.when));
  for (const presets of form.querySelectorAll(".presets")) presets.hidden = false;
  for (const button of form.querySelectorAll("[data-preset]")) {
    button.addEventListener("click", () => {
      [form.elements.delay.value, form.elements.unit.value] = button.dataset.preset.split(" ");
      choose("delay");
    });
  }
  for (const field of form.querySelectorAll("[data-json]")) watch(field);
}

for (const form of document.querySelectorAll("form.job-form")) watchForm(form);
showTicks();
// A live list is merged anew every few seconds: what its bar says has to follow.
const list = document.querySelector("#dead-letters, #jobs");
if (list) new MutationObserver(showTicks).observe(list, {
  attributeFilter: ["hidden"], characterData: true, childList: true, subtree: true,
});
// The same for the copy buttons of a job's live part, which come hidden for browsers that cannot copy.
const job = document.getElementById("job");
function showCopyButtons() {
  for (const button of job.querySelectorAll("[data-copy]")) setHidden(button, false);
}
if (job && navigator.clipboard) {
  new MutationObserver(showCopyButtons).observe(job, { attributeFilter: ["hidden"], childList: true, subtree: true });
}
