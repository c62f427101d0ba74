// The theme switch, without leaving the page: the same cookie that the server reads.

const switcher = document.querySelector("[data-theme-switch]");

switcher?.addEventListener("submit", (event) => {
  const theme = event.submitter?.value;
  if (!theme) return;
  event.preventDefault();
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `punctual_theme=${theme}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
  document.documentElement.dataset.theme = theme;
  applyBootstrap();
  for (const button of switcher.querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.value === theme));
  }
});

// Bootstrap knows light and dark only; what the system prefers has to be told to it.
const dark = matchMedia("(prefers-color-scheme: dark)");

function applyBootstrap() {
  const root = document.documentElement;
  root.dataset.bsTheme = root.dataset.theme === "auto" ? (dark.matches ? "dark" : "light") : root.dataset.theme;
}

dark.addEventListener("change", applyBootstrap);
applyBootstrap();
