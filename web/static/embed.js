"use strict";
// A search box for any site, from one tag: <script src="https://search.example.org/embed.js" defer></script>
// The box is in a shadow root, so that the page's styles do not apply to it. The root is open, because a closed root
// would hide the box from accessibility checkers, but not from the page's scripts. Answers are inserted as text, never
// as HTML. Styles are in a constructed style sheet, so that the page's content security policy needs no exception.
(() => {
  const script = document.currentScript;
  if (!script?.src) return console.warn("Pilotlight: load embed.js with a plain script tag, not as a module.");
  const DEBOUNCE_MS = 120;
  const SLOW_MS = 400; // delay until the status says that a search is running
  const RETRY_MS = 2000;
  const SEEN_MS = 2000; // a search is counted when its hits have been on screen for this long
  const FIRST_HITS = 2; // rendered immediately; the others follow after the first paint
  const MAX_SUGGESTIONS = 3;
  const STORAGE_KEY = "pilotlight-search"; // last query, in the tab's session storage
  const SNIPPET_CHARS = 220;
  const LEAD_CHARS = 60; // shown before the first match
  const PATH = " › "; // between the headings of a section
  const HAS_SHORTCUTS = Symbol.for("pilotlight.search"); // set on the window when a box handles keyboard shortcuts
  const TEXTS = {
    en: {
      search: "Search", label: "Search this site", close: "Close", results: "Results",
      names: "Suggestions", meant: "Did you mean: ",
      hint: "Ask in your own words: a full question finds more than a keyword.",
      choose: "to choose", open: "to open", end: "to close", searching: "Searching…",
      one: "1 result", more: (n) => `${n} results`, none: "Nothing found. Try other words or a full question.",
      far: "No passage is close to this. The nearest ones:",
      busy: "Busy right now. The search is repeated automatically.", offline: "You are offline.",
      unreachable: "The search cannot be reached.", refused: "The search is not set up for this site.",
      failed: "The search failed. Try again later.", invalid: "This cannot be searched for. Change the words.",
    },
    de: {
      search: "Suchen", label: "Diese Website durchsuchen", close: "Schließen", results: "Ergebnisse",
      names: "Vorschläge", meant: "Meinten Sie: ",
      hint: "Fragen Sie in eigenen Worten: Eine ganze Frage findet mehr als ein Stichwort.",
      choose: "zum Auswählen", open: "zum Öffnen", end: "zum Schließen", searching: "Suche läuft…",
      one: "1 Ergebnis", more: (n) => `${n} Ergebnisse`, none: "Nichts gefunden. Versuchen Sie andere Wörter oder eine ganze Frage.",
      far: "Keine Stelle beantwortet das genau. Die nächstliegenden:",
      busy: "Gerade ausgelastet. Die Suche wird automatisch wiederholt.", offline: "Sie sind offline.",
      unreachable: "Die Suche ist nicht erreichbar.", refused: "Die Suche ist für diese Website nicht eingerichtet.",
      failed: "Die Suche ist fehlgeschlagen. Versuchen Sie es später erneut.", invalid: "Danach kann nicht gesucht werden. Ändern Sie die Wörter.",
    },
    fr: {
      search: "Rechercher", label: "Rechercher sur ce site", close: "Fermer", results: "Résultats",
      names: "Suggestions", meant: "Vouliez-vous dire : ",
      hint: "Demandez avec vos propres mots : une question complète trouve plus qu’un mot-clé.",
      choose: "pour choisir", open: "pour ouvrir", end: "pour fermer", searching: "Recherche en cours…",
      one: "1 résultat", more: (n) => `${n} résultats`, none: "Aucun résultat. Essayez d’autres mots ou une question complète.",
      far: "Aucun passage n’y répond précisément. Les plus proches :",
      busy: "Service occupé. La recherche est relancée automatiquement.", offline: "Vous êtes hors ligne.",
      unreachable: "La recherche est injoignable.", refused: "La recherche n’est pas configurée pour ce site.",
      failed: "La recherche a échoué. Réessayez plus tard.", invalid: "Recherche impossible. Modifiez les mots.",
    },
    es: {
      search: "Buscar", label: "Buscar en este sitio", close: "Cerrar", results: "Resultados",
      names: "Sugerencias", meant: "Quizás quiso decir: ",
      hint: "Pregunte con sus propias palabras: una pregunta completa encuentra más que una palabra clave.",
      choose: "para elegir", open: "para abrir", end: "para cerrar", searching: "Buscando…",
      one: "1 resultado", more: (n) => `${n} resultados`, none: "No se encontró nada. Pruebe con otras palabras o una pregunta completa.",
      far: "Ningún pasaje responde con exactitud. Los más cercanos:",
      busy: "Ocupado en este momento. La búsqueda se repite automáticamente.", offline: "No hay conexión.",
      unreachable: "No se puede acceder a la búsqueda.", refused: "La búsqueda no está configurada para este sitio.",
      failed: "La búsqueda ha fallado. Inténtelo más tarde.", invalid: "Esto no se puede buscar. Cambie las palabras.",
    },
    ar: {
      search: "بحث", label: "البحث في هذا الموقع", close: "إغلاق", results: "النتائج",
      names: "اقتراحات", meant: "هل تقصد: ",
      hint: "اسأل بكلماتك: السؤال الكامل يجد أكثر من كلمة مفتاحية.",
      choose: "للاختيار", open: "للفتح", end: "للإغلاق", searching: "جارٍ البحث…",
      one: "نتيجة واحدة", more: (n) => `عدد النتائج: ${n}`, none: "لم يُعثر على شيء. جرّب كلمات أخرى أو سؤالًا كاملًا.",
      far: "لا يوجد مقطع يجيب عن هذا بدقة. الأقرب:",
      busy: "الخدمة مشغولة الآن. سيُعاد البحث تلقائيًا.", offline: "أنت غير متصل بالإنترنت.",
      unreachable: "تعذّر الوصول إلى البحث.", refused: "البحث غير مُعدّ لهذا الموقع.",
      failed: "فشل البحث. حاول لاحقًا.", invalid: "لا يمكن البحث عن هذا. غيّر الكلمات.",
    },
  };

  // !important inside a shadow root wins over !important outside of it, so the page cannot override :host
  const STYLE = `
    :host { all: initial !important; display: contents !important; color-scheme: inherit !important; }
    :host([data-theme=light]) { color-scheme: light !important; }
    :host([data-theme=dark]) { color-scheme: dark !important; }
    *, ::before, ::after { box-sizing: border-box; }
    .all {
      --background: var(--pilotlight-background, light-dark(#fff, #1c1c20));
      --text: var(--pilotlight-text, light-dark(#1d1c1a, #e9e6e0));
      --muted: var(--pilotlight-muted, light-dark(#67635b, #a09c94));
      --border: var(--pilotlight-border, light-dark(#e4e0d8, #323238));
      --accent: var(--pilotlight-accent, light-dark(#1f4fb8, #9cbcff));
      --shade: var(--pilotlight-selected, light-dark(#f1eee7, #28282e));
      --radius: var(--pilotlight-radius, .8em);
      font: var(--pilotlight-font-size, medium)/1.5 var(--pilotlight-font, system-ui, sans-serif);
      color: var(--text);
    }
    button, input { font: inherit; color: inherit; margin: 0; }
    button { cursor: pointer; }
    :focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
    .opener {
      position: fixed; z-index: 2147483647; inset-block-end: 1.25em; inset-inline-end: 1.25em;
      display: flex; align-items: center; gap: .5em; padding: .6em 1em;
      border: 1px solid var(--border); border-radius: 2em; background: var(--background);
      box-shadow: 0 .2em .9em rgb(0 0 0 / 18%);
    }
    .opener:hover { border-color: var(--muted); }
    svg { flex: none; width: 1.15em; height: 1.15em; fill: none; stroke: currentColor; stroke-width: 2; stroke-linecap: round; }
    dialog {
      position: fixed; inset: 0; width: min(var(--pilotlight-width, 42em), 100vw - 2em); max-width: none;
      height: fit-content; max-height: min(44em, 84vh); margin: 8vh auto auto; padding: 0; overflow: hidden;
      border: 1px solid var(--border); border-radius: var(--radius); color: inherit; background: var(--background);
      box-shadow: 0 1em 4em rgb(0 0 0 / 32%);
    }
    dialog[open] { display: flex; flex-direction: column; }
    dialog::backdrop { background: var(--pilotlight-backdrop, rgb(0 0 0 / 45%)); }
    .ask { flex: none; display: flex; align-items: center; gap: .7em; padding-block: .4em; padding-inline: 1em .6em; border-block-end: 1px solid var(--border); }
    .ask svg { color: var(--muted); }
    input { flex: 1; min-width: 0; padding: .6em 0; border: 0; outline: 0; background: none; font-size: 1.0625em; }
    input:focus-visible { outline: 2px solid transparent; outline-offset: -2px; }
    input::placeholder { color: var(--muted); opacity: 1; }
    input::-webkit-search-cancel-button { display: none; }
    .ask:has(input:focus-visible) { box-shadow: inset 0 -2px var(--accent); }
    .ask button { padding: .3em .7em; border: 1px solid var(--border); border-radius: .5em; background: none; color: var(--muted); font-size: .8125em; }
    .ask button:hover { color: var(--text); border-color: var(--muted); }
    p { margin: 0; }
    .status { flex: none; padding: .75em 1.25em .4em; color: var(--muted); font-size: .8125em; }
    .hits { overflow-y: auto; overscroll-behavior: contain; padding: 0 .6em; }
    .hit { display: block; padding: .6em .65em; border-radius: calc(var(--radius) * .7); color: inherit; text-decoration: none; overflow-wrap: anywhere; }
    .hit[aria-selected=true], a.hit:hover { background: var(--shade); }
    .hit[aria-selected=true] { outline: 2px solid transparent; outline-offset: -2px; box-shadow: inset 3px 0 var(--accent); }
    [dir=rtl] .hit[aria-selected=true] { box-shadow: inset -3px 0 var(--accent); }
    .name { padding-block: .35em; cursor: pointer; }
    .name:hover { background: var(--shade); }
    .names { margin-block-end: .3em; padding-block-end: .3em; border-block-end: 1px solid var(--border); }
    .title { display: block; color: var(--accent); font-weight: 600; }
    .path { display: block; color: var(--muted); font-size: .8125em; }
    .text { display: block; margin-block-start: .15em; font-size: .9em; }
    mark { padding: 0 .1em; border-radius: .2em; color: inherit; background: var(--pilotlight-mark, light-dark(#ffebb0, rgb(255 196 80 / 22%))); }
    .keys { flex: none; display: flex; flex-wrap: wrap; gap: .2em 1.4em; margin-block-start: .6em; padding: .6em 1.25em; border-block-start: 1px solid var(--border); color: var(--muted); font-size: .75em; }
    kbd { padding: .05em .4em; border: 1px solid var(--border); border-radius: .3em; font: inherit; }
    @media (hover: none), (pointer: coarse), (max-width: 30em) { .keys { display: none; } .hits { padding-block-end: .6em; } }
    @media (max-width: 30em) { dialog { width: 100vw; max-height: 100dvh; margin-block-start: 0; border-width: 0 0 1px; border-radius: 0; } }
    @media print { .all { display: none; } }
    @media (prefers-reduced-motion: no-preference) {
      dialog[open] { animation: appear .14s ease-out; }
      @keyframes appear { from { opacity: 0; transform: translateY(-.4em); } }
    }`;

  function make(name, properties, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }

  function glass() {
    const [svg, path] = ["svg", "path"].map((name) => document.createElementNS("http://www.w3.org/2000/svg", name));
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    path.setAttribute("d", "M10.5 4a6.5 6.5 0 1 0 0 13a6.5 6.5 0 0 0 0-13M15.5 15.5L20.5 20.5");
    svg.append(path);
    return svg;
  }

  const host = document.createElement("pilotlight-search");
  const root = host.attachShadow({ mode: "open" });
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  root.adoptedStyleSheets = [sheet];
  const openerLabel = make("span", {});
  const opener = make("button", { type: "button", class: "opener", "aria-haspopup": "dialog", part: "button" }, glass(), openerLabel);
  const box = make("input", {
    type: "search", role: "combobox", "aria-autocomplete": "list", "aria-controls": "hits", "aria-expanded": "false",
    autocomplete: "off", autocapitalize: "off", spellcheck: "false", enterkeyhint: "search", maxlength: "1000",
  });
  const closer = make("button", { type: "button" });
  const status = make("p", { class: "status", role: "status" });
  const hits = make("div", { class: "hits", id: "hits", role: "listbox" });
  const keys = make("p", { class: "keys", "aria-hidden": "true" });
  const dialog = make("dialog", { part: "dialog" }, make("div", { class: "ask", role: "search" }, glass(), box, closer), status, hits, keys);
  const corner = make("div", { role: "search" }, opener);
  const all = make("div", { class: "all" }, corner, dialog);
  root.append(all);

  let texts = TEXTS.en;
  let searchId = ""; // id of the search whose hits are shown; empty if the server records no searches
  let looking = 0; // timer until the search is counted
  let turn = 0; // number of the latest search; responses to earlier ones are stale
  let request = new AbortController();
  let timer = 0;
  let shownQuery = ""; // the query of the hits on the page
  let pressTarget = null; // element under the last pointerdown

  // --- the page, whose language, direction and colours may change while the box is closed

  function dress() {
    const { theme, placeholder, button } = script.dataset;
    const language = (script.closest("[lang]:not(html)") ?? document.documentElement).lang.toLowerCase().split("-")[0];
    const supported = Object.hasOwn(TEXTS, language) ? language : "en";
    texts = TEXTS[supported];
    host.dataset.theme = theme ?? "auto";
    all.lang = supported;
    all.dir = supported === "ar" ? "rtl" : getComputedStyle(document.body ?? document.documentElement).direction;
    corner.hidden = Boolean(button);
    openerLabel.textContent = texts.search;
    dialog.setAttribute("aria-label", texts.label);
    corner.setAttribute("aria-label", texts.search);
    box.parentElement.setAttribute("aria-label", texts.label);
    box.setAttribute("aria-label", texts.label);
    box.placeholder = placeholder ?? texts.label;
    hits.setAttribute("aria-label", texts.results);
    closer.textContent = texts.close;
    const hints = [["↑ ↓", texts.choose], ["Enter", texts.open], ["Esc", texts.end]];
    keys.replaceChildren(...hints.map(([key, use]) => make("span", {}, make("kbd", {}, key), ` ${use}`)));
  }

  function attach() {
    dress();
    if (!host.isConnected) document.documentElement.append(host); // scripts may replace the body
  }

  function open() {
    attach();
    if (!dialog.open) {
      dialog.showModal();
      box.value ||= lastQuery();
      if (!shownQuery || box.value.trim() !== shownQuery) search();
    }
    box.focus();
    box.select();
  }

  function close() {
    stop();
    dialog.close();
  }

  // --- searching

  function stop() {
    clearTimeout(timer);
    request.abort();
    turn += 1;
  }

  function later() {
    clearTimeout(timer);
    timer = setTimeout(search, DEBOUNCE_MS);
  }

  async function search() {
    stop();
    const query = box.value.trim();
    if (!query) {
      shownQuery = "";
      show(texts.hint);
      return;
    }
    const mine = turn;
    request = new AbortController();
    const slow = setTimeout(() => { status.textContent = texts.searching; }, SLOW_MS);
    let code = 0; // HTTP status
    let answer = null;
    let names = []; // suggestions, shown only if they arrive before the hits
    suggest(query, request.signal).then((suggestions) => { names = suggestions; }, () => {});
    try {
      ({ code, answer } = await ask(query, request.signal));
    } catch {
      // The request was aborted by a newer search, or the server is unreachable, which the status says below.
    }
    clearTimeout(slow);
    if (mine !== turn) return;
    shownQuery = query;
    keep(query);
    if (answer) {
      look(answer.search_id);
      const count = answer.hits.length;
      const words = !count ? texts.none : answer.close === false ? texts.far : count === 1 ? texts.one : texts.more(count);
      show(words, answer.hits, names, answer.did_you_mean);
    } else if (code === 429 || code === 503) {
      shownQuery = ""; // so that the same query is sent again
      show(texts.busy);
      timer = setTimeout(search, RETRY_MS);
    } else if (code === 400) show(texts.invalid);
    else if ([401, 403, 404].includes(code)) show(texts.refused);
    else if (code) show(texts.failed);
    else {
      shownQuery = "";
      show(navigator.onLine ? texts.unreachable : texts.offline);
    }
  }

  async function ask(query, signal) {
    const { collection, k } = script.dataset;
    const body = { query, links: true, k: Number.parseInt(k, 10) || 8, collections: collection || "default" };
    const reply = await send("search", signal, { method: "POST", body: JSON.stringify(body) });
    return { code: reply.status, answer: reply.ok ? await reply.json() : null };
  }

  // If the server records searches, reports a search when its hits have been on screen for SEEN_MS.
  function look(id) {
    clearTimeout(looking);
    searchId = id;
    looking = id ? setTimeout(tell, SEEN_MS, "seen") : 0;
  }

  function tell(feedback, hit) {
    clearTimeout(looking);
    if (!searchId) return;
    const body = JSON.stringify({ search_id: searchId, feedback, hit });
    send("feedback", undefined, { method: "POST", body, keepalive: true }).catch(() => {});
  }

  async function suggest(query, signal) {
    const parameters = new URLSearchParams({ q: query, k: MAX_SUGGESTIONS, collections: script.dataset.collection || "default" });
    const reply = await send(`suggest?${parameters}`, signal);
    return reply.ok ? (await reply.json()).suggestions : [];
  }

  function send(path, signal, more = {}) {
    const { key } = script.dataset;
    const headers = more.body ? { "Content-Type": "application/json" } : {};
    if (key) headers.Authorization = `Bearer ${key}`;
    const policy = { credentials: "omit", referrerPolicy: "no-referrer" };
    return fetch(new URL(`api/v1/${path}`, script.src), { ...policy, headers, signal, ...more });
  }

  // Some pages have no access to storage. There, the last query is not restored.
  function keep(query) {
    try {
      sessionStorage.setItem(STORAGE_KEY, query);
    } catch {}
  }

  function lastQuery() {
    try {
      return sessionStorage.getItem(STORAGE_KEY) ?? "";
    } catch {
      return "";
    }
  }

  // --- rendering

  function show(words, rows = [], names = [], meant = null) {
    hits.scrollTop = 0; // after inserting hits, this would force a layout
    status.textContent = words;
    const queries = names.map(({ text }) => [text, text]);
    if (meant) queries.unshift([meant, texts.meant + meant]);
    const list = make("div", { role: "group", "aria-label": texts.results }, ...rows.slice(0, FIRST_HITS).map(row));
    const suggestions = make("div", { role: "group", "aria-label": texts.names, class: "names" }, ...queries.map(name));
    hits.replaceChildren(...(queries.length ? [suggestions] : []), ...(rows.length ? [list] : []));
    box.setAttribute("aria-expanded", String(rows.length + queries.length > 0));
    box.removeAttribute("aria-activedescendant");
    const rest = rows.slice(FIRST_HITS);
    if (rest.length) requestAnimationFrame(() => setTimeout(() => {
      if (list.isConnected) list.append(...rest.map((hit, place) => row(hit, place + FIRST_HITS)));
    }));
  }

  function name([query, text], place) {
    return make("div", { class: "hit name", id: `name-${place}`, role: "option", "aria-selected": "false", dir: "auto", "data-query": query }, text);
  }

  function row(hit, place) {
    const address = addressOf(hit.link || hit.url);
    const title = hit.title || (address ? hit.url : hit.url.replace(/.*\//, "")); // the name of a file
    const within = hit.section + PATH;
    const path = (within.startsWith(hit.title + PATH) ? within.slice(hit.title.length + PATH.length) : within).slice(0, -PATH.length);
    const element = make(address ? "a" : "div", {
      class: "hit", id: `hit-${place}`, "data-hit": hit.id, role: "option", "aria-selected": "false", dir: "auto",
      "aria-labelledby": `title-${place}${path ? ` path-${place}` : ""}`, "aria-describedby": `text-${place}`,
      ...(hit.language ? { lang: hit.language } : {}),
      ...(address ? { href: address } : { "aria-disabled": "true" }),
    }, make("span", { class: "title", id: `title-${place}` }, title));
    if (path) element.append(make("span", { class: "path", id: `path-${place}` }, path));
    element.append(make("span", { class: "text", id: `text-${place}` }, ...snippet(hit)));
    return element;
  }

  function addressOf(text) {
    try {
      const url = new URL(text);
      return url.protocol === "https:" || url.protocol === "http:" ? url.href : "";
    } catch {
      return ""; // no address, so no link
    }
  }

  // Spans count code points. Only a string with surrogate pairs has to be split into them.
  function snippet({ text, highlights }) {
    const letters = /[\ud800-\udfff]/.test(text) ? [...text] : text;
    const cut = (from, to) => (letters === text ? text.slice(from, to) : letters.slice(from, to).join(""));
    const last = letters.length;
    let [best, start] = [0, 0];
    for (const [from] of highlights) {
      const inside = highlights.filter(([other, to]) => other >= from && to <= from + SNIPPET_CHARS - LEAD_CHARS).length;
      if (inside > best) [best, start] = [inside, from];
    }
    start = Math.max(0, Math.min(start - LEAD_CHARS, last - SNIPPET_CHARS));
    while (start > 0 && start < last && letters[start - 1].trim()) start += 1; // begin with a word
    if (start === last) start = Math.max(0, last - SNIPPET_CHARS); // the text is one word
    let end = Math.min(last, start + SNIPPET_CHARS);
    while (end < last && end < start + 2 * SNIPPET_CHARS && letters[end].trim()) end += 1;
    const pieces = start > 0 ? ["… "] : [];
    let at = start;
    for (const [from, to] of highlights) {
      if (from < at || to > end) continue;
      pieces.push(cut(at, from), make("mark", {}, cut(from, to)));
      at = to;
    }
    pieces.push(cut(at, end), end < last ? "\u00a0…" : "");
    return pieces;
  }

  const selected = () => hits.querySelector("[aria-selected=true]");

  function step(by) {
    const rows = [...hits.querySelectorAll("[role=option]")];
    const old = selected();
    const next = old ? rows[rows.indexOf(old) + by] : rows.at(by > 0 ? 0 : -1);
    old?.setAttribute("aria-selected", "false");
    box.removeAttribute("aria-activedescendant");
    box.focus();
    if (!next) return;
    next.setAttribute("aria-selected", "true");
    box.setAttribute("aria-activedescendant", next.id);
    next.scrollIntoView({ block: "nearest" });
  }

  // --- events

  const isShortcut = ({ key, ctrlKey, metaKey, shiftKey, altKey }) =>
    !altKey && (ctrlKey || metaKey ? !shiftKey && key.toLowerCase() === "k" : key === "/");

  // A custom element counts as a field, because its closed shadow root may contain one.
  function isField(element) {
    if (!(element instanceof Element)) return false;
    const role = element.getAttribute("role") ?? "";
    const isPlain = /^(button|checkbox|color|file|image|radio|range|reset|submit)$/.test(element.type);
    if (element.matches("textarea, select") || (element.localName === "input" && !isPlain)) return true;
    return element.isContentEditable || element.localName.includes("-") || /textbox|searchbox|combobox|spinbutton/.test(role);
  }

  function onKeyOfPage(event) {
    if (dialog.open || event.defaultPrevented || event.isComposing || event.repeat || !isShortcut(event)) return;
    if (isField(event.composedPath()[0])) return;
    event.preventDefault();
    open();
  }

  // Stops key events while the dialog is open, so that letters do not trigger the page's own shortcuts.
  function onKeyOfDialog(event) {
    if (!dialog.open) return;
    event.stopImmediatePropagation();
    if (event.type !== "keydown" || event.isComposing) return;
    const { key, ctrlKey, metaKey, shiftKey, altKey } = event;
    const inBox = root.activeElement === box;
    if (key === "Escape") close();
    else if ((ctrlKey || metaKey) && isShortcut(event)) {
      box.focus();
      box.select();
    } else if ((key === "ArrowDown" || key === "ArrowUp") && !altKey && !ctrlKey && !metaKey) step(key === "ArrowDown" ? 1 : -1);
    else if (key === "Enter" && inBox) {
      const click = { bubbles: true, cancelable: true, composed: true, ctrlKey, metaKey, shiftKey };
      if (selected()) selected().dispatchEvent(new MouseEvent("click", click));
      else search();
    } else return;
    event.preventDefault();
  }

  for (const type of ["keydown", "keypress", "keyup"]) addEventListener(type, onKeyOfDialog, true);
  if (!window[HAS_SHORTCUTS]) {
    window[HAS_SHORTCUTS] = true;
    addEventListener("keydown", onKeyOfPage);
  }
  addEventListener("click", (event) => {
    const { button } = script.dataset;
    if (!button || dialog.open || event.button) return;
    try {
      if (!event.composedPath().some((element) => element instanceof Element && element.matches(button))) return;
    } catch {
      return console.warn(`Pilotlight: data-button is not a selector: ${button}`);
    }
    event.preventDefault();
    open();
  }, true);
  opener.addEventListener("click", open);
  closer.addEventListener("click", close);
  dialog.addEventListener("cancel", stop); // closed by the browser, for example after a gesture
  dialog.addEventListener("pointerdown", (event) => { pressTarget = event.target; });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && pressTarget === dialog) close(); // outside of the dialog
    const query = event.target.closest("[data-query]")?.dataset.query;
    if (query) {
      box.value = query;
      box.focus();
      search();
    }
    const modified = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;
    const hit = event.target.closest("a[data-hit]");
    if (hit) tell("opened", hit.dataset.hit);
    if (event.target.closest("a") && !modified) close(); // the link may lead to a place on this page
  });
  box.addEventListener("input", (event) => { if (!event.isComposing) later(); });
  box.addEventListener("compositionend", later);

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", attach);
  else attach();
})();
