"use strict";
// Applies the chosen theme before the first paint, so that the page does not flash in other colours.
(() => {
  const root = document.documentElement;
  let theme = "auto";
  try {
    theme = localStorage.getItem("theme") ?? theme;
  } catch {
    // without storage, the choice is lost when the page is closed
  }

  function apply() {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme;
    else delete root.dataset.theme;
  }

  function label(button) {
    button.title = `Theme: ${theme}`; // begins with the button's text, for voice control
    button.setAttribute("aria-label", button.title);
  }

  root.classList.add("js");
  apply();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    label(button);
    button.addEventListener("click", () => {
      const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
      const themes = ["auto", system === "dark" ? "light" : "dark", system]; // the first press changes the colours
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
