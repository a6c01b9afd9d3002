"use strict";
// The bars shrink, and the page asks for itself again. Without this file it is all there.
(function () {
  var patience = 5000, longest = 60000; // ms until an answer is missed, and given up
  var started = performance.now();      // when this was new
  var heard = Date.now();               // when the server answered last

  function spell(ms) {
    var s = ms / 1000;
    if (s < 10) return s.toFixed(1) + "s";
    var h = Math.floor(s / 3600), m = Math.floor(s % 3600 / 60), rest = Math.floor(s % 60);
    return (h ? h + "h" : "") + (h || m ? m + "m" : "") + rest + "s";
  }

  function main() { return document.getElementById("page"); }

  function write(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function remember() {
    started = performance.now();
    document.querySelectorAll("progress").forEach(function (bar) { bar.dataset.left = bar.getAttribute("value"); });
  }

  function shrink() {
    var gone = performance.now() - started;
    document.querySelectorAll("progress").forEach(function (bar) {
      if (bar.max <= 1 || bar.closest(".old")) return; // a hold without an end; one that may be over
      var left = Math.max(0, bar.dataset.left - gone);
      bar.value = left;
      var text = bar.nextElementSibling;
      if (text && !selected(text)) write(text, spell(left));
    });
  }

  // What somebody marks stays as it is.
  function selected(node) {
    var marked = getSelection();
    return !marked.isCollapsed && marked.containsNode(node, true);
  }

  function used(node) { return node.contains(document.activeElement) || selected(node); }

  function like(a, b) { return a.nodeType === b.nodeType && a.nodeName === b.nodeName && id(a) === id(b); }

  function id(node) { return node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.id || "" : ""; }

  // morph makes a node as the next one is. What is alike stays, with its focus and its selection.
  function morph(node, next) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== next.data && !selected(node)) node.data = next.data;
      return;
    }
    Array.from(node.attributes).forEach(function (a) { if (!next.hasAttribute(a.name)) node.removeAttribute(a.name); });
    Array.from(next.attributes).forEach(function (a) {
      if (node.getAttribute(a.name) !== a.value) node.setAttribute(a.name, a.value);
    });
    var at = node.firstChild;
    Array.from(next.childNodes).forEach(function (want) {
      var same = at;
      while (same && !like(same, want)) same = same.nextSibling;
      if (!same) return node.insertBefore(document.importNode(want, true), at);
      while (at !== same && used(same)) { // it must not move: what is before it does
        var before = at;
        at = at.nextSibling;
        node.appendChild(before);
      }
      if (same === at) at = at.nextSibling;
      else node.insertBefore(same, at);
      morph(same, want);
    });
    while (at) {
      var gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  // old says that what is shown cannot be made anew.
  function old(text) {
    write(document.getElementById("status"), text);
    main().classList.add("old");
  }

  function silent() {
    old("No answer since " + new Date(heard).toISOString().slice(11, 19) + " UTC; this is old.");
  }

  function show(text) {
    var next = new DOMParser().parseFromString(text, "text/html"), page = next.getElementById("page");
    if (!page) return silent(); // a sign-in, or a proxy
    heard = Date.now();
    var status = next.getElementById("status").textContent;
    if ("silent" in page.dataset && !("silent" in main().dataset)) return old(status);
    write(document.getElementById("status"), status);
    document.title = next.title;
    morph(main(), page);
    remember();
  }

  function later() {
    var wait = Number(main().dataset.refresh);
    if (wait > 0) setTimeout(refresh, wait);
  }

  function refresh() {
    if (document.hidden) return later();
    var stop = new AbortController(), late = setTimeout(silent, patience), over = setTimeout(function () { stop.abort(); }, longest);
    fetch(location.href, { headers: { Accept: "text/html" }, signal: stop.signal })
      .then(function (answer) { return answer.text(); })
      .then(function (text) { clearTimeout(late); show(text); }, silent)
      .then(function () { clearTimeout(late); clearTimeout(over); later(); });
  }

  remember();
  setInterval(shrink, 100);
  later();
})();
