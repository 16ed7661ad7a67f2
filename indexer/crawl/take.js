// Returns the document as HTML, with the content of open shadow trees; null where it is too long.
// Shadow trees are put in place in a copy that runs no scripts.
([most, address]) => {
  const root = document.documentElement, hosts = [];
  if (!root) return "";
  if (!document.querySelector("base[href]") && location.href.split("#")[0] !== address) {
    const base = document.createElement("base");
    base.href = location.href;
    document.head?.prepend(base);
  }
  const find = tree => {
    for (const element of tree.querySelectorAll("*"))
      if (element.shadowRoot) { hosts.push(element.shadowRoot); find(element.shadowRoot); }
  };
  find(document);
  let html;
  if (hosts.length) {
    const copy = new DOMParser().parseFromString(root.getHTML({shadowRoots: hosts}), "text/html");
    const place = tree => {
      for (const shadow of tree.querySelectorAll("template[shadowrootmode]")) {
        place(shadow.content);
        shadow.replaceWith(shadow.content);
      }
    };
    place(copy);
    for (const {name, value} of root.attributes) copy.documentElement.setAttribute(name, value);
    html = copy.documentElement.outerHTML;
  } else html = root.outerHTML;
  return html.length > most ? null : "<!doctype html>" + html;
}
