"use strict";
// The bars shrink, and the page asks for itself again. Without this file it is all there.
(function () {
  var started = performance.now();

  function spell(ms) {
    var s = ms / 1000;
    if (s < 10) return s.toFixed(1) + "s";
    var h = Math.floor(s / 3600), m = Math.floor(s % 3600 / 60), rest = Math.floor(s % 60);
    return (h ? h + "h" : "") + (h || m ? m + "m" : "") + rest + "s";
  }

  function remember() {
    started = performance.now();
    document.querySelectorAll("progress").forEach(function (bar) { bar.dataset.left = bar.value; });
  }

  function shrink() {
    var gone = performance.now() - started;
    document.querySelectorAll("progress").forEach(function (bar) {
      if (bar.max <= 1) return; // a hold without an end
      var left = Math.max(0, bar.dataset.left - gone);
      bar.value = left;
      var text = bar.nextElementSibling;
      if (text) text.textContent = spell(left);
    });
  }

  function main() { return document.getElementById("page"); }

  function later() {
    var wait = Number(main().dataset.refresh);
    if (wait > 0) setTimeout(refresh, wait);
  }

  // A field that somebody types into stays as it is.
  function busy() { var at = document.activeElement; return document.hidden || at && at.tagName === "INPUT"; }

  function refresh() {
    if (busy()) return later();
    fetch(location.href, { headers: { Accept: "text/html" } }).then(function (answer) {
      return answer.text().then(function (text) {
        var next = new DOMParser().parseFromString(text, "text/html").getElementById("page");
        if (answer.ok && next && !busy()) {
          main().replaceWith(document.adoptNode(next));
          remember();
        }
      });
    }).catch(function () { /* the next one may succeed */ }).then(later);
  }

  remember();
  setInterval(shrink, 100);
  later();
})();
