"use strict";
// Searches while typing. The server renders all pages. This script fetches a page, parses it, and moves its results into
// the current page. Parsing runs no scripts, and escaped text stays escaped.
(() => {
  const DEBOUNCE_MS = 120;
  const RETRY_MS = 2000;
  const DEFAULTS = { mode: "hybrid", collections: "default" }; // omitted in addresses
  const SLOW_MS = 400; // delay until the status says that a search is running
  const HEADERS = { Accept: "text/html", "X-Pilotlight-Typing": "1" }; // feedback.js reports when the hits have been seen
  const part = (id) => document.getElementById(id);
  const [form, box, results, facets, count] = ["search", "q", "results", "facets", "count"].map(part);
  let turn = 0; // number of the latest search; responses to earlier ones are stale
  let request = new AbortController();
  let timer = 0;
  let pageAddress = location.href; // address of the results that are shown or being fetched
  let settled = true; // the next search adds a history entry instead of replacing it

  // --- addresses

  function address(query = box.value) {
    const url = new URL(form.action);
    const fields = new FormData(form);
    fields.set(box.name, query);
    for (const [name, value] of fields) {
      const usual = DEFAULTS[name] === value && fields.getAll(name).length === 1;
      if (value.trim() && !usual) url.searchParams.append(name, value.trim());
    }
    return url.href;
  }

  function remember(url) {
    pageAddress = url;
    if (url === location.href) return;
    if (settled) history.pushState(null, "", url);
    else history.replaceState(null, "", url);
    settled = false;
  }

  function restore() {
    pageAddress = location.href;
    const parameters = new URL(pageAddress).searchParams;
    box.value = parameters.get("q") ?? "";
    for (const [name, usual] of Object.entries(DEFAULTS)) {
      const values = [...parameters.getAll(name), ...parameters.getAll(name.replace(/s$/, ""))].join().split(",");
      for (const field of form.querySelectorAll(`input[name=${name}]:not([type=hidden])`)) {
        field.checked = values.includes(field.value) || values.includes("*") || (!values[0] && field.value === usual);
      }
    }
    settled = true;
    return load();
  }

  async function go(url) {
    settled = true;
    remember(url);
    await restore();
    scrollTo(0, 0);
    // the followed link was replaced, and had the focus
    if (document.activeElement === document.body) (form.querySelector("#narrowed li:last-child a") ?? box).focus();
  }

  // --- rendering

  function show(page) {
    const fresh = page.getElementById("results");
    const open = facets.querySelector("details")?.open;
    for (const name of ["state", "search"]) results.dataset[name] = fresh.dataset[name] ?? "";
    for (const id of ["results", "facets", "narrowed", "skip"]) {
      part(id).replaceChildren(...page.getElementById(id).childNodes);
    }
    if (open) facets.querySelector("details")?.setAttribute("open", "");
    count.textContent = page.getElementById("count").textContent.trim();
    document.title = page.title;
    dress();
    if (fresh.dataset.state === "waiting") timer = setTimeout(load, RETRY_MS);
  }

  function showFailure(title, message) {
    const content = part("failure").content.cloneNode(true);
    content.querySelector("h2").textContent = title;
    content.querySelector("p").textContent = message;
    results.dataset.state = "failure";
    results.replaceChildren(content);
    facets.replaceChildren();
    part("skip").replaceChildren();
    count.textContent = title;
    dress();
  }

  async function fetchPage(url, signal) {
    const reply = await fetch(url, { headers: HEADERS, signal });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    return { status: reply.status, page: page.getElementById("results") ? page : null };
  }

  async function load() {
    clearTimeout(timer);
    request.abort();
    request = new AbortController();
    const mine = ++turn;
    form.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => {
      count.textContent = "Searching…";
      count.classList.add("seen");
    }, SLOW_MS);
    let answer = null;
    try {
      answer = await fetchPage(pageAddress, request.signal);
    } catch {
      // aborted by a newer search, or the server is unreachable, which is reported below
    }
    clearTimeout(slow);
    if (mine !== turn) return;
    form.removeAttribute("aria-busy");
    count.classList.remove("seen");
    if (answer?.page) show(answer.page);
    else if (answer?.status === 200) location.reload(); // not a search page, such as a proxy's login page
    else if (answer?.status === 503) { // the server is too busy to render a page
      showFailure("Busy right now", "The search will be repeated automatically.");
      timer = setTimeout(load, RETRY_MS);
    }
    else if (answer?.status === 414) showFailure("No answer", "This question is too long to send. Shorten it and try again.");
    else if (answer) showFailure("No answer", `The server answered with status ${answer.status} and no page.`);
    else if (navigator.onLine) showFailure("No answer", "The server cannot be reached. Is it running?");
    else showFailure("You are offline", "The search continues when you are back online.");
  }

  function search() {
    remember(address());
    return load();
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(search, DEBOUNCE_MS);
  }

  // --- roles: the list is a grid, because its rows contain links and buttons; the search box is its combobox

  function dress() {
    const list = results.querySelector(".pages");
    const roles = { ".pages": "grid", ".pages > div": "rowgroup", ".hit": "row", ".hit > div": "gridcell" };
    for (const [selector, role] of Object.entries(roles)) {
      for (const element of results.querySelectorAll(selector)) element.setAttribute("role", role);
    }
    if (box.getAttribute("aria-controls") !== "suggestions") point(list);
    if (list) {
      list.id = "hits";
      list.setAttribute("aria-label", "Results");
    }
  }

  // makes the list the popup of the box
  function point(list) {
    box.removeAttribute("aria-activedescendant");
    box.setAttribute("aria-haspopup", "grid");
    box.setAttribute("aria-controls", "hits");
    box.setAttribute("aria-expanded", String(Boolean(list)));
  }

  const selected = () => results.querySelector(".hit[aria-selected=true]");

  function choose(row) {
    selected()?.removeAttribute("aria-selected");
    box.removeAttribute("aria-activedescendant");
    if (!row) return;
    row.setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", row.id);
    row.scrollIntoView({ block: "nearest" });
  }

  function step(by) {
    const rows = [...results.querySelectorAll(".hit")];
    const at = rows.indexOf(selected());
    choose(at < 0 ? rows.at(by > 0 ? 0 : -1) : rows[at + by]);
  }

  function open(row, event) {
    const { ctrlKey, metaKey, shiftKey } = event;
    const click = new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey, metaKey, shiftKey });
    row.querySelector("h3 a, .section a")?.dispatchEvent(click);
  }

  // --- actions on a hit

  const passageTop = (hit) => (hit.querySelector(".passage") ?? hit.querySelector(".text")).getBoundingClientRect().top;

  async function toggle(link) {
    const hit = link.closest(".hit");
    let fresh = null;
    try {
      fresh = (await fetchPage(link.href)).page?.getElementById(hit.id);
    } catch {
      // handled like a missing hit, below
    }
    if (!fresh) {
      location.assign(link.href); // shows the error
      return;
    }
    const focused = hit.contains(document.activeElement);
    const top = passageTop(hit);
    const explained = hit.querySelector(".why")?.open;
    hit.replaceChildren(...fresh.childNodes);
    if (explained) hit.querySelector(".why")?.setAttribute("open", "");
    dress();
    scrollBy(0, passageTop(hit) - top); // so that the passage does not move on the screen
    if (focused) hit.querySelector(".toggle").focus({ preventScroll: true });
  }

  async function cite(button) {
    const text = button.dataset.citation;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // without TLS there is no clipboard API, only this older way
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const label = [...button.childNodes];
    button.replaceChildren("Copied");
    count.textContent = "Citation copied";
    setTimeout(() => button.replaceChildren(...label), 1500);
  }

  // --- events

  box.addEventListener("input", (event) => { if (!event.isComposing) later(); });
  box.addEventListener("compositionend", later);
  form.addEventListener("change", (event) => {
    if (event.target.name in DEFAULTS) search();
    settled = true;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
    settled = true;
  });

  document.addEventListener("click", (event) => {
    const target = event.target.closest("a, button");
    const modified = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    if (!target || modified || event.button) return;
    if (target.matches(".again")) load();
    else if (target.matches(".cite")) cite(target);
    else if (target.matches(".toggle")) {
      event.preventDefault();
      toggle(target);
    } else if (target.matches("#skip a")) {
      event.preventDefault(); // following the link would change the address
      results.querySelector(".hit a").focus();
    } else if (target.matches("#narrowed a, #facets a, #results .stay")) {
      event.preventDefault();
      go(target.href);
    }
  });

  addEventListener("popstate", restore);
  addEventListener("online", () => { if (results.dataset.state === "failure") load(); });

  box.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter" && selected()) {
      event.preventDefault();
      open(selected(), event);
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.altKey) return;
    const modified = event.ctrlKey || event.metaKey;
    const typing = event.target.closest("input:not([type=radio], [type=checkbox]), textarea, select, [contenteditable]");
    if (modified ? event.key.toLowerCase() === "k" && !event.shiftKey : event.key === "/" && !typing) {
      event.preventDefault();
      box.focus();
      box.select();
    } else if (event.key === "Escape" && !modified) {
      event.preventDefault(); // by default the box would clear itself and search
      if (selected()) choose(null);
      else if (box.value) {
        box.value = "";
        search();
        box.focus();
      } else box.blur();
    }
  });

  // shows the hits of a follow-up question below its answer; the page keeps the address of the first question
  results.addEventListener("showhits", (event) => {
    pageAddress = address(event.detail);
    load();
  });

  box.addEventListener("suggestionsclose", () => point(results.querySelector(".pages")));

  box.setAttribute("role", "combobox");
  box.setAttribute("aria-autocomplete", "list");
  dress();
  box.value ||= new URL(location.href).searchParams.get("q") ?? ""; // missing in the page of a busy server
  if (results.dataset.state === "waiting") timer = setTimeout(load, RETRY_MS);
})();
