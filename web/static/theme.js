"use strict";
// Runs before the first paint, so that the other colours never flash up.
(() => {
  const root = document.documentElement;
  let theme = "auto";
  try {
    theme = localStorage.getItem("theme") ?? theme;
  } catch {
    // storage is forbidden: the choice lasts as long as the page
  }

  function apply() {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  function label(button) {
    button.title = `Theme: ${theme}`; // which begins with what the button says, for those who speak to it
    button.setAttribute("aria-label", button.title);
  }

  root.classList.add("js");
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    label(button);
    button.addEventListener("click", () => {
      const usual = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
      const themes = ["auto", usual === "dark" ? "light" : "dark", usual]; // so that the first press changes something
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try {
        localStorage.setItem("theme", theme);
      } catch {
        // as above
      }
      apply();
      label(button);
    });
  });
})();
