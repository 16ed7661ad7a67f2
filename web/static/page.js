"use strict";
// Searches while typing. The server renders every state; this script fetches the same page and moves its parts in,
// so that there is one renderer, and what it escaped stays escaped: parsed documents do not run scripts.
(() => {
  const DEBOUNCE_MS = 140;
  const RETRY_MS = 2000;
  const form = document.getElementById("search");
  const box = document.getElementById("q");
  const narrowed = document.getElementById("narrowed");
  const results = document.getElementById("results");
  const count = document.getElementById("count");
  const timing = document.getElementById("timing");
  const failure = document.getElementById("failure");
  let turn = 0; // of the latest search; an answer from an earlier turn is stale
  let request = new AbortController();
  let timer = 0;
  let settled = true; // the address in the bar is one to come back to, so the next search gets its own

  function address() {
    const url = new URL(form.action);
    for (const [name, value] of new FormData(form)) {
      const usual = name === "mode" && value === "hybrid";
      if (value.trim() && !usual) url.searchParams.append(name, value.trim());
    }
    return url.href;
  }

  function remember(url) {
    if (url === location.href) return;
    if (settled) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
    settled = false;
  }

  function show(page) {
    const fresh = page.getElementById("results");
    results.dataset.state = fresh.dataset.state;
    results.replaceChildren(...fresh.childNodes);
    narrowed.replaceChildren(...page.getElementById("narrowed").childNodes);
    timing.replaceChildren(...page.getElementById("timing").childNodes);
    count.textContent = page.getElementById("count").textContent.trim();
    document.title = page.title;
    if (fresh.dataset.state === "waiting") timer = setTimeout(load, RETRY_MS);
  }

  function showFailure(message) {
    const content = failure.content.cloneNode(true);
    content.querySelector("p").textContent = message;
    results.dataset.state = "failure";
    results.replaceChildren(content);
    timing.replaceChildren();
    count.textContent = "No answer";
  }

  async function load() {
    clearTimeout(timer);
    request.abort();
    request = new AbortController();
    const mine = ++turn;
    form.setAttribute("aria-busy", "true");
    let page = null;
    let message = "The server cannot be reached. Is it running?";
    try {
      const reply = await fetch(location.href, { headers: { Accept: "text/html" }, signal: request.signal });
      const text = await reply.text();
      page = new DOMParser().parseFromString(text, "text/html");
      message = reply.status === 414
        ? "This question is too long to send. Shorten it and try again."
        : `The server answered with status ${reply.status} and no page.`;
    } catch {
      // aborted, in which case the turn has moved on, or unreachable, which the message says
    }
    if (mine !== turn) return;
    form.removeAttribute("aria-busy");
    if (page?.getElementById("results")) show(page);
    else showFailure(message);
  }

  function search() {
    remember(address());
    load();
  }

  box.addEventListener("input", (event) => {
    if (event.isComposing) return;
    clearTimeout(timer);
    timer = setTimeout(search, DEBOUNCE_MS);
  });
  box.addEventListener("compositionend", () => {
    clearTimeout(timer);
    timer = setTimeout(search, DEBOUNCE_MS);
  });
  form.addEventListener("change", (event) => {
    if (event.target.name === "mode") search();
    settled = true;
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
    settled = true;
  });

  results.addEventListener("click", (event) => {
    if (event.target.closest(".again")) load();
  });

  addEventListener("popstate", () => {
    const parameters = new URL(location.href).searchParams;
    box.value = parameters.get("q") ?? "";
    form.elements.mode.value = parameters.get("mode") ?? "hybrid";
    settled = true;
    load();
  });

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]")) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "Escape" && (box.value || document.activeElement === box)) {
      event.preventDefault();
      if (box.value) {
        box.value = "";
        search();
        box.focus();
      } else box.blur();
    }
  });

  document.documentElement.classList.add("js");
  if (results.dataset.state === "waiting") timer = setTimeout(load, RETRY_MS);
})();
