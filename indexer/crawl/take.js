// Returns the document as HTML with the content of open shadow trees, or null if it has over `maxLength` characters.
// The templates of shadow trees are replaced by their content in a copy of the document, which runs no scripts.
([maxLength, address]) => {
  const root = document.documentElement, shadowRoots = [];
  if (!root) return "";
  if (!document.querySelector("base[href]") && location.href.split("#")[0] !== address) {
    const base = document.createElement("base");
    base.href = location.href;
    document.head?.prepend(base);
  }
  const collect = tree => {
    for (const element of tree.querySelectorAll("*"))
      if (element.shadowRoot) { shadowRoots.push(element.shadowRoot); collect(element.shadowRoot); }
  };
  collect(document);
  let html;
  if (shadowRoots.length) {
    const copy = new DOMParser().parseFromString(root.getHTML({shadowRoots}), "text/html");
    const unwrap = tree => {
      for (const shadow of tree.querySelectorAll("template[shadowrootmode]")) {
        unwrap(shadow.content);
        shadow.replaceWith(shadow.content);
      }
    };
    unwrap(copy);
    for (const {name, value} of root.attributes) copy.documentElement.setAttribute(name, value);
    html = copy.documentElement.outerHTML;
  } else html = root.outerHTML;
  return html.length > maxLength ? null : "<!doctype html>" + html;
}
