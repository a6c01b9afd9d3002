"use strict";
// The page refreshes itself, shows local times, and copies. Without this file, everything else works.
(() => {
  const get = id => document.getElementById(id), live = () => get("live");

  // prepare shows times in the viewer's zone; their tooltips have UTC. Copying needs https or localhost.
  function prepare() {
    for (const t of document.querySelectorAll("time.clock")) t.textContent = new Date(t.dateTime).toLocaleString();
    for (const b of document.querySelectorAll("[data-copy]")) b.hidden = !navigator.clipboard;
  }

  // inUse: a refresh would take away what the user marks, reads or has the keyboard on.
  function inUse() {
    const marked = getSelection();
    return !marked.isCollapsed && marked.containsNode(live(), true) || !!live().querySelector(":focus-visible, details[open]");
  }

  async function ask() {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(10000) }).then(a => a.text()).catch(() => "");
    const next = new DOMParser().parseFromString(answer, "text/html");
    const fresh = next.getElementById("live"), status = next.getElementById("status"), ours = fresh && status;
    if (get("pause").checked || inUse()) return;
    if (ours) live().replaceWith(fresh);
    else live().classList.add("old"); // an error, or another page, such as a sign-in
    get("status").textContent = ours ? status.textContent : (status?.textContent || "This page has no answer.") + " This is old.";
    prepare();
  }

  async function refresh() {
    const used = inUse();
    get("paused").textContent = used ? "paused while you use it" : "";
    if (!used && !get("pause").checked && !document.hidden) await ask();
    setTimeout(refresh, live().dataset.refresh || 2000);
  }

  document.addEventListener("click", ({ target }) => {
    if (target.dataset.copy) navigator.clipboard.writeText(target.dataset.copy).then(() => { target.textContent = "Copied"; });
  });
  prepare();
  if (!live()) return; // a question, or an error
  get("refresh").hidden = false;
  setTimeout(refresh, live().dataset.refresh);
})();
