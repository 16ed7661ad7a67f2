// Resolves when nothing has changed for so long, or when it is time to take the document as it is.
([quiet, restless]) => new Promise(done => {
  let still = 0;
  const end = () => { watch.disconnect(); clearTimeout(still); clearTimeout(last); done(true); };
  const again = () => { clearTimeout(still); still = setTimeout(end, quiet); };
  const watch = new MutationObserver(again), last = setTimeout(end, restless);
  watch.observe(document, {subtree: true, childList: true, characterData: true});
  if (document.readyState === "complete") again(); else addEventListener("load", again);
})
