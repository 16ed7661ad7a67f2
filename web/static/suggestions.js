"use strict";
// Suggests queries while typing, in a list over the page. Loaded before page.js, so that it sees key events first.
(() => {
  const DEBOUNCE_MS = 120;
  const UNUSED_FIELDS = new Set(["mode", "explain"]); // fields of the form that do not change suggestions
  const [form, box] = ["search", "q"].map((id) => document.getElementById(id));
  const list = document.createElement("ul");
  let request = new AbortController();
  let timer = 0;

  const selected = () => list.querySelector("[aria-selected=true]");

  function address() {
    const url = new URL("api/v1/suggest", form.action);
    for (const [name, value] of new FormData(form)) {
      if (!UNUSED_FIELDS.has(name)) url.searchParams.append(name, value.trim());
    }
    return url;
  }

  function stop() {
    clearTimeout(timer);
    request.abort();
    request = new AbortController();
  }

  function later() {
    stop();
    if (box.value.trim()) timer = setTimeout(ask, DEBOUNCE_MS);
    else close();
  }

  async function ask() {
    const { signal } = request;
    let suggestions = [];
    try {
      const reply = await fetch(address(), { signal });
      if (reply.ok) suggestions = (await reply.json()).suggestions;
    } catch {
      // aborted, or the server has no suggestions
    }
    if (!signal.aborted) show(suggestions);
  }

  function show(suggestions) {
    if (!suggestions.length || document.activeElement !== box) return close();
    list.replaceChildren(...suggestions.map(({ text }, place) => {
      const option = document.createElement("li");
      option.id = `suggestion-${place}`;
      option.role = "option";
      option.ariaSelected = "false";
      option.dir = "auto";
      option.textContent = text;
      return option;
    }));
    list.hidden = false;
    box.setAttribute("aria-haspopup", "listbox");
    box.setAttribute("aria-controls", list.id);
    box.setAttribute("aria-expanded", "true");
    box.removeAttribute("aria-activedescendant");
  }

  function close() {
    stop();
    if (list.hidden) return;
    list.hidden = true;
    list.replaceChildren();
    box.removeAttribute("aria-activedescendant");
    box.dispatchEvent(new Event("suggestionsclose")); // page.js points the box to the hits again
  }

  function choose(option) {
    selected()?.setAttribute("aria-selected", "false");
    box.removeAttribute("aria-activedescendant");
    if (!option) return;
    option.setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", option.id);
  }

  function take(option) {
    box.value = option.textContent;
    form.requestSubmit();
  }

  function onKey(event) {
    const { key } = event;
    if (list.hidden || event.isComposing || event.altKey || event.ctrlKey || event.metaKey) return;
    const options = [...list.children];
    const next = options.indexOf(selected()) + (key === "ArrowDown" ? 1 : -1);
    if (key === "Escape") close();
    else if (key === "Enter" && selected()) take(selected());
    else if (key === "ArrowDown" && next < options.length) choose(options[next]);
    else if (key === "ArrowUp" && next >= -1) choose(options[next]); // above the first one: back to the typed text
    else {
      if (key === "ArrowDown" || key === "ArrowUp") close(); // the hits follow the suggestions
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  list.id = "suggestions";
  list.role = "listbox";
  list.ariaLabel = "Suggestions";
  list.hidden = true;
  box.after(list);
  box.addEventListener("input", (event) => { if (!event.isComposing) later(); });
  box.addEventListener("compositionend", later);
  box.addEventListener("blur", close);
  box.addEventListener("keydown", onKey, true);
  form.addEventListener("submit", close);
  form.addEventListener("change", close);
  addEventListener("popstate", close);
  list.addEventListener("pointerdown", (event) => event.preventDefault()); // the box keeps the focus
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(option);
  });
})();
