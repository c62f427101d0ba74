// Elements with data-live-url are asked for again every data-live-seconds, and merged into the page as it stands.
// Focus, what was typed, ticks, open details and dialogs stay. Hidden tabs ask ten times more slowly.

import { showTimes } from "./time.js";

const HIDDEN_FACTOR = 10;
// What the browser or a script of ours has set, and the server does not know of.
const KEPT = [
  ["details, dialog", ["open"]],
  ["input, textarea, select", ["value", "checked"]],
  ["[data-copy]", ["hidden"]],
];
const due = new WeakMap();
const mark = document.getElementById("live");
let paused = false;
let away = 0;

function places() {
  return [...document.querySelectorAll("[data-live-url]")].filter((element) => element.id);
}

function seconds(element) {
  return Number(element.dataset.liveSeconds || 3) * (document.hidden ? HIDDEN_FACTOR : 1) * (1 + Math.min(away, 5));
}

async function refresh(element) {
  const address = element.dataset.liveUrl || location.href;
  const response = await fetch(address, { headers: { "X-Fragment": "1" }, credentials: "same-origin", redirect: "error" });
  if (response.status === 401) return pause();
  if (!response.ok) throw new Error(String(response.status));
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const part = fresh.getElementById(element.id);
  if (!part || paused) return;
  merge(element, part);
  showTimes(element);
  const title = fresh.querySelector("title");
  if (title && title.textContent && !element.dataset.liveUrl) document.title = title.textContent;
  showLevel();
}

async function turn() {
  if (!paused) {
    for (const element of places()) {
      if (performance.now() < (due.get(element) ?? 0)) continue;
      try {
        await refresh(element);
        away = 0;
      } catch {
        away += 1;
      }
      due.set(element, performance.now() + seconds(element) * 1000);
    }
    showMark();
  }
  setTimeout(turn, 500);
}

function merge(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.hasAttribute?.("data-keep")) return;
  mergeAttributes(old, fresh);
  if (old.matches("input, textarea, select")) return;
  mergeChildren(old, fresh);
}

function mergeAttributes(old, fresh) {
  const kept = KEPT.filter(([selector]) => old.matches(selector)).flatMap(([, names]) => names);
  for (const { name, value } of [...fresh.attributes]) {
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!kept.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("id") || node.getAttribute("data-key") || "" : "";
}

function alike(old, fresh) {
  return old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh);
}

function mergeChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = keyed.get(keyOf(wanted));
    if (known && known.nodeName === wanted.nodeName && known !== place) {
      old.insertBefore(known, place);
      merge(known, wanted);
    } else if (place && alike(place, wanted)) {
      const next = place.nextSibling;
      merge(place, wanted);
      place = next;
    } else {
      old.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    // What somebody is in the middle of stays until the page is loaded again.
    if (!(place.contains?.(document.activeElement) && document.activeElement !== document.body)) place.remove();
    place = next;
  }
}

function showLevel() {
  const health = document.getElementById("health");
  const icon = document.getElementById("favicon");
  if (!health || !icon) return;
  const level = health.dataset.level;
  const address = icon.dataset[level];
  if (address && icon.getAttribute("href") !== address) icon.setAttribute("href", address);
  const plain = document.title.replace(/^\(!\) /, "");
  document.title = level === "failing" ? `(!) ${plain}` : plain;
}

function showMark() {
  if (!mark) return;
  mark.hidden = false;
  mark.setAttribute("aria-pressed", String(paused));
  mark.dataset.state = paused ? "paused" : away > 1 ? "away" : "live";
  mark.querySelector("[data-live-word]").textContent = paused ? "Paused" : away > 1 ? "Reconnecting" : "Live";
  mark.title = paused ? "Go on refreshing this page" : "Stop refreshing this page";
}

function pause() {
  paused = true;
  showMark();
}

mark?.addEventListener("click", () => {
  paused = !paused;
  showMark();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const element of places()) due.delete(element);
});

if (places().length) {
  for (const element of places()) due.set(element, performance.now() + seconds(element) * 1000);
  showMark();
  setTimeout(turn, 500);
}
