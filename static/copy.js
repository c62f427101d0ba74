// Copy buttons of code blocks; hidden where the browser has no clipboard.

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(button.closest("figure").querySelector("pre").textContent);
    const words = button.querySelector("span");
    const before = words.textContent;
    words.textContent = "Copied";
    setTimeout(() => { words.textContent = before; }, 1500);
  });
}
