// The operator's page: loads the JSON of the scope once a second, and writes it as text. No value becomes markup. limits.js has the table
// of limits, in the same scope.
"use strict";

const CALLERS_ON_PAGE = 20;
// Limits that are named beside a failure.
const MAX_NAMED = 5;
// Longest text of a closure, and longest error of a file, in UTF-16 units.
const MAX_TEXT = 60;
const MAX_ERROR = 2000;

const byId = (id) => document.getElementById(id);

// An element. Children that are texts or numbers become text nodes; those that are null are left out.
function make(tag, attributes, ...children) {
  const isDrawn = ["svg", "title", "path"].includes(tag);
  const made = document.createElementNS(`http://www.w3.org/${isDrawn ? "2000/svg" : "1999/xhtml"}`, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

// Writes a text. One that stays the same is not written: a screen reader would say it again.
function write(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

// Shows a text, or nothing for null.
function say(id, text) {
  write(id, text ?? "");
  byId(id).hidden = text === null;
}

// ---- Words

const cut = (text, max) => (text.length > max ? `${text.slice(0, max)}…` : text);
const plural = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;
const millis = (micros) => `${(micros / 1000).toFixed(2)} ms`;

// A time in words: its two largest units.
function time(seconds) {
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(seconds / unit));
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

// A wait in microseconds, rounded up to whole seconds.
const wait = (micros) => time(Math.ceil(micros / 1e6));

// A window in the form of the attribute, such as "1h30m".
function windowText(micros) {
  let text = "";
  for (const [unit, size] of [["d", 864e8], ["h", 36e8], ["m", 6e7], ["s", 1e6], ["ms", 1e3], ["us", 1]]) {
    if (micros >= size) text += `${Math.floor(micros / size)}${unit}`;
    micros %= size;
  }
  return text;
}

// The numbers of a policy as a phrase.
function numbersText({ max, window_us: micros, calendar, burst, block_us: block }) {
  const each = calendar ?? (micros === null ? null : windowText(micros));
  return `${max ?? "chosen for each request"}${each === null ? " at a time" : ` per ${each}`}` +
    `${burst === null ? "" : `, burst ${burst}`}${block === null ? "" : `, blocks for ${windowText(block)}`}`;
}

// ---- What is wrong

function showWrong(all, overrides, store) {
  const wrong = [];
  const { connection, is_ready: isReady, is_out: isOut } = store;
  if (!isReady) wrong.push(`The store (${store.kind}) is ${NOT_CONNECTED}.`);
  else if (connection !== null && connection.open_slot_ranges.length > 0) wrong.push(`The circuit breaker is ${breaker(connection)}.`);
  else if (isOut) wrong.push("Calls of the store failed lately: limits follow their failure policies then.");
  const rejecting = all.filter((limit) => limit.last_minute.unavailable > 0);
  rejecting.sort((one, other) => other.last_minute.unavailable - one.last_minute.unavailable);
  if (rejecting.length > 0) {
    const named = rejecting.slice(0, MAX_NAMED).map((limit) => `${limit.name} (${limit.last_minute.unavailable})`);
    if (rejecting.length > MAX_NAMED) named.push(`${rejecting.length - MAX_NAMED} more`);
    wrong.push(`Rejected for want of the store in the last minute: requests under ${named.join(", ")}.`);
  }
  if (overrides !== null && overrides.rejected !== null) wrong.push("The newest overrides are not in force; their section says why.");
  const shown = [...byId("wrong").children].map((item) => item.textContent);
  if (shown.join() !== wrong.join()) byId("wrong").replaceChildren(...wrong.map((text) => make("li", {}, text)));
  byId("wrong").hidden = wrong.length === 0;
}

// ---- Overrides, store, callers

function showOverrides(overrides) {
  byId("overrides").hidden = overrides === null;
  if (overrides === null) return;
  const { rows, limits, source, rejected } = overrides;
  say("in-force", `In force: ${plural(rows, "row")} for ${plural(limits, "limit")}, from ${source}.`);
  say("rejected", rejected === null ? null : `Newer contents are not in force: ${cut(rejected, MAX_ERROR)}.`);
}

const NOT_CONNECTED = "not connected: limits follow their failure policies";
const term = ([name, ...description]) => make("div", {}, make("dt", {}, name), make("dd", {}, description));

function showStore({ kind, is_ready: isReady, is_out: isOut, uptime, callers, fallback_callers: fallback, connection }) {
  say("process", `This process has counted for ${time(uptime)}.`);
  const state = isOut ? "ready; a call failed lately, and limits follow their failure policies then" : "ready";
  const terms = [
    ["Kind", kind],
    ["State", isReady ? state : make("strong", {}, NOT_CONNECTED)],
    ...(callers === null ? [] : [["Callers in memory", callers]]),
    ["Callers counted without it", `${fallback} in this process, with expired ones`],
    ...(connection === null ? [] : connectionTerms(connection)),
  ];
  byId("store").replaceChildren(...terms.map(term));
}

function connectionTerms(status) {
  const { round_trip_us: trip, batch, leases } = status;
  const calls = `p50 ${millis(trip.p50)}, p99 ${millis(trip.p99)}, at most ${millis(trip.max)}, of ${trip.count} calls in the last ` +
    `one to two minutes; deadline ${millis(status.deadline_us)}`;
  return [
    ["Connections", `${status.lanes} open; the store has made its own ${status.connections === 1 ? "once" : `${status.connections} times`}`],
    // Without a connection nothing is sent, whatever it is.
    ...(status.is_connected ? [["Circuit breaker", breaker(status)]] : []),
    ["Round trip", trip.count === 0 ? "no call in the last one to two minutes" : calls],
    ["Requests per call", `${(batch.sum / Math.max(batch.count, 1)).toFixed(1)} on average, p99 ${batch.p99}, at most ${batch.max}`],
    ["Denial cache", `${plural(status.cached_denials, "denial")}, ${status.denial_cache_hits} requests denied without a round trip`],
    ["Leases", `${leases.held} units held for ${leases.callers} callers; so far ${leases.leased} leased, ${leases.used} used, ` +
      `${leases.returned} given back, ${leases.expired} expired`],
  ];
}

// Which part is out.
function breaker({ open_slot_ranges: open, slot_ranges: all }) {
  if (open.length === 0) return "closed";
  if (all === 1) return "open: no command is sent until the server answers a probe";
  const slots = 16384 / all;
  return `open for ${open.length} of ${all} slot ranges: ` +
    open.map((range) => `${range * slots}-${(range + 1) * slots - 1}`).join(", ");
}

function showCallers({ callers, not_counted: notCounted }) {
  byId("no-callers").hidden = callers.length > 0;
  byId("callers").hidden = callers.length === 0;
  say("not-counted", notCounted === 0 ? null :
    `${notCounted} further denials came while the table was in use, and are not in it.`);
  fill("callers", callers.slice(0, CALLERS_ON_PAGE).map((caller) => {
    const look = make("button", { type: "button", "aria-label": `Look at ${caller.digest}` }, "Look");
    look.addEventListener("click", () => send("look.json", { limit: caller.limit, digest: caller.digest }));
    return make("tr", {},
      make("th", { scope: "row" }, make("code", {}, caller.digest),
        caller.caller === null ? null : make("div", { class: "place name" }, caller.caller)),
      make("td", {}, caller.limit),
      make("td", { class: "figure" }, caller.denied),
      make("td", { class: "figure" }, caller.error),
      make("td", {}, caller.can_look ? look : "more than 256 bytes"));
  }));
}

// Replaces the rows of a table. Each cell gets the head of its column, for narrow screens. A control that has the focus would lose it.
function fill(id, rows) {
  const { tHead, tBodies: [body] } = byId(id);
  if (body.contains(document.activeElement)) return;
  for (const row of rows) {
    [...row.cells].forEach((cell, index) => cell.setAttribute("data-head", tHead.rows[0].cells[index].textContent));
  }
  body.replaceChildren(...rows);
}

// ---- One caller

// Looks at a caller or resets it, and shows the answer. The token proves that the request comes from this page, and not from another site.
async function send(path, subject) {
  let shown;
  try {
    const token = await (await get("token")).text();
    const reply = await fetch(path, { method: "POST", body: new URLSearchParams({ ...subject, token }) });
    const answer = await reply.json();
    shown = reply.ok ? lookedAt(answer, subject) : [make("p", { role: "alert" }, `Not done: ${answer.error}.`)];
  } catch (error) {
    shown = [make("p", { role: "alert" }, `Not done: ${error.message}.`)];
  }
  byId("looked").replaceChildren(...shown);
  byId("looked").querySelector("h3, p").setAttribute("tabindex", "-1");
  byId("looked").querySelector("h3, p").focus();
}

function lookedAt(view, subject) {
  const reset = make("button", { id: "reset", type: "button" }, "Reset: forget what is counted");
  reset.addEventListener("click", () => send("reset.json", subject));
  const done = view.was_counted ? "What was counted for this caller is forgotten."
    : "Nothing was counted for this caller, so nothing is forgotten.";
  const status = view.was_counted ? null : make("p", {}, "Nothing is counted for this caller now.");
  return [
    make("h3", {}, "Caller ", make("code", {}, view.digest), ` under ${view.limit}`),
    make("p", { class: "name" }, view.caller ?? ""),
    view.is_reset ? make("p", { role: "status" }, done) : status,
    ...view.counts.map((count) => make("dl", {}, countTerms(count).map(term))),
    make("p", {}, reset),
  ].filter((part) => part !== null);
}

function countTerms(count) {
  const note = (text) => make("div", { class: "place" }, text);
  const isConcurrency = count.window_us === null;
  const terms = [[
    "Numbers",
    `${numbersText(count)}, ${count.algorithm}, key ${count.key}, ${count.mode}`,
    note(originText(count)),
    count.ipv6_prefix === null ? null : note(`IPv6 addresses count by /${count.ipv6_prefix}`),
  ]];
  if (count.counted === null) return terms;
  const { units, limit, remaining, passes, retry_after_us: retry, reset_after_us: reset } = count.counted;
  const counted = limit === null ? units : `${units} of ${limit}`;
  terms.push([isConcurrency ? "Held in all" : "Counted", units === null ? "blocked" : counted]);
  if (remaining !== null) terms.push(["Remaining", remaining]);
  const denied = retry ? `passes in ${wait(retry)}` : "does not pass";
  terms.push(["A request of one unit",
    passes === null ? "passes if its max is larger than the count" : passes ? "passes now" : denied]);
  // Slots are held, and have no time at which they end.
  if (!isConcurrency) {
    terms.push(["Full quota", reset === null ? "at the next edge, chosen for each request" : `in ${wait(reset)}`]);
  }
  if (count.counted.is_degraded) terms.push(["Outage", "counted in this process only"]);
  return terms;
}

// Where the numbers come from.
function originText({ origin, plan }) {
  if (origin === "decision") return "of an earlier decision, and no longer declared";
  if (origin === "caller") return "from the row of this caller in the overrides";
  if (origin === "plan") return `for requests of the plan ${plan}, from the overrides`;
  return origin === "limit" ? "from the overrides of the limit" : "from the program";
}

// ---- The page

async function get(path) {
  const reply = await fetch(path, { cache: "no-store" });
  if (!reply.ok) throw new Error(`the answer to ${path} is ${reply.status}`);
  return reply;
}

async function refresh() {
  const names = ["limits", "overrides", "store", "callers"];
  try {
    const parts = await Promise.all(names.map(async (name) => (await get(`${name}.json`)).json()));
    [showLimits, showOverrides, showStore, showCallers].forEach((show, index) => show(parts[index]));
    showWrong(...parts);
    document.querySelector("main").hidden = false;
    say("trouble", null);
  } catch (error) {
    say("trouble", `The figures are not those of now: ${error.message}.`);
  }
}

let paused = false;

async function run() {
  for (;;) {
    const began = Date.now();
    if (!paused && !document.hidden) await refresh();
    // With very many limits the answers take long: then the page loads them less often.
    await new Promise((done) => setTimeout(done, Math.max(1000, 4 * (Date.now() - began))));
  }
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").textContent = paused ? "Go on" : "Pause";
});
byId("look").addEventListener("submit", (event) => {
  event.preventDefault();
  send("look.json", { limit: byId("limit").value, caller: byId("caller").value });
});
startLimits();
run();
