// Replaces the parts with figures once a second. The page works without it.
"use strict";
const pause = document.getElementById("pause");
let paused = !pause;

async function refresh() {
  if (paused || document.hidden) return;
  const reply = await fetch(location.href, { cache: "no-store" });
  if (!reply.ok) return;
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  for (const old of document.querySelectorAll("[data-live]")) {
    const part = fresh.getElementById(old.id);
    // A control that has the focus would lose it.
    if (part && !old.contains(document.activeElement)) old.replaceWith(document.importNode(part, true));
  }
}

async function run() {
  for (;;) {
    // A failure is shown by figures that stand still; the next second tries again.
    await refresh().catch(() => {});
    await new Promise((done) => setTimeout(done, 1000));
  }
}

if (pause) {
  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
  });
  run();
}
