// Resolves when the document has not changed for `quiet` milliseconds, or after `restless` milliseconds at the latest.
([quiet, restless]) => new Promise(resolve => {
  let quietTimer = 0;
  const finish = () => { observer.disconnect(); clearTimeout(quietTimer); clearTimeout(lastTimer); resolve(true); };
  const restart = () => { clearTimeout(quietTimer); quietTimer = setTimeout(finish, quiet); };
  const observer = new MutationObserver(restart), lastTimer = setTimeout(finish, restless);
  observer.observe(document, {subtree: true, childList: true, characterData: true});
  if (document.readyState === "complete") restart(); else addEventListener("load", restart);
})
