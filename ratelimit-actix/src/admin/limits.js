// The table of limits on the operator's page: what it shows of them, in which order, and pictures of the last ten minutes. page.js calls it.
"use strict";

const LIMITS_PER_PAGE = 15;
// How many places and numbers, and how many rows of overrides, are shown of one limit.
const MAX_PLACES = 4;
const MAX_ROWS = 3;

// The limits of the last JSON, by name; the page that is shown, and its order: `by` is null for the usual one.
let limits = [];
let page = 1;
const order = { by: null, isAscending: false };

const refused = ({ denied, unavailable }) => denied + unavailable;

// The numbers by which a limit is ordered, the decisive one first.
function ranks(limit) {
  const { by } = order;
  if (by === "name") return [];
  if (by !== null) return byId("span").value === "" ? [limit[by]] : [limit.last_minute[by], limit[by]];
  return [refused(limit.last_minute), limit.recent.reduce((sum, bar) => sum + refused(bar), 0), refused(limit)];
}

function ordered(found) {
  const ranked = found.map((limit) => [limit, ranks(limit)]);
  const sign = order.isAscending ? 1 : -1;
  // Equal limits stay in the order of names.
  ranked.sort(([, one], [, other]) => {
    const decisive = one.findIndex((rank, index) => rank !== other[index]);
    return decisive < 0 ? 0 : sign * (one[decisive] - other[decisive]);
  });
  if (order.by === "name" && !order.isAscending) ranked.reverse();
  return ranked.map(([limit]) => limit);
}

// The first click on the head of a column orders by it, the second the other way round, the third as usual.
function orderBy(by) {
  const first = by === "name";
  if (order.by !== by) orderAs(by, first);
  else if (order.isAscending === first) orderAs(by, !first);
  else orderAs(null, false);
}

function orderAs(by, isAscending) {
  Object.assign(order, { by, isAscending });
  showFromFirst();
}

function showFromFirst() {
  page = 1;
  showLimits(limits);
}

function isFound({ name, numbers }) {
  const wanted = byId("find").value.trim().toLowerCase();
  const words = [name, ...numbers.flatMap(({ key, place: at }) => [key, at?.handler ?? ""])];
  return words.some((word) => word.toLowerCase().includes(wanted));
}

function showLimits(all) {
  limits = all;
  const found = ordered(limits.filter(isFound));
  const pages = Math.max(1, Math.ceil(found.length / LIMITS_PER_PAGE));
  page = Math.min(page, pages);
  const shown = found.slice((page - 1) * LIMITS_PER_PAGE, page * LIMITS_PER_PAGE);
  byId("no-limits").hidden = limits.length > 0;
  byId("limits").hidden = limits.length === 0;
  write("total", found.length === limits.length ? `${limits.length}` : `${found.length} of ${limits.length}`);
  for (const head of sortable()) {
    if (head.dataset.sort !== order.by) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", order.isAscending ? "ascending" : "descending");
  }
  byId("usual").hidden = order.by === null;
  byId("pages").hidden = pages === 1;
  byId("page").textContent = `Page ${page} of ${pages}`;
  byId("previous").disabled = page === 1;
  byId("next").disabled = page === pages;
  // Limits are only added. A list that is open would close.
  if (byId("names").children.length !== limits.length) {
    byId("names").replaceChildren(...limits.map(({ name }) => make("option", { value: name })));
  }
  fill("limits", shown.map((limit) => make("tr", { "data-limit": limit.name }, limitCells(limit))));
}

const sortable = () => [...byId("limits").tHead.querySelectorAll("[data-sort]")];

function limitCells(limit) {
  const figures = sortable().map((head) => head.dataset.sort).filter((name) => name !== "name");
  const places = limit.numbers.slice(0, MAX_PLACES).map(place);
  const more = limit.numbers.length - MAX_PLACES;
  const modes = new Set(limit.numbers.map(({ mode }) => mode).sort());
  const holds = limit.numbers.some((numbers) => numbers.window_us === null);
  // Numbers that differ in what is shown.
  const inForce = new Map(limit.numbers.map(numbersInForce).map((shown) => [shown.textContent, shown]));
  return [
    make("th", { scope: "row" }, limit.name, places, more > 0 ? make("div", { class: "place" }, `and ${more} more`) : null),
    make("td", {}, [...inForce.values()].slice(0, MAX_PLACES),
      holds ? make("div", { class: "held" }, `${limit.held} running here`) : null),
    make("td", { class: "mode" }, [...modes].map((mode) => make("div", { class: mode }, mode))),
    ...figures.map((figure) => make("td", { class: "figure", "data-figure": figure },
      make("span", { class: limit[figure] === 0 ? "place" : "" }, limit[figure]), rate(limit.last_minute[figure]))),
    make("td", {}, picture(limit.recent)),
  ];
}

const rate = (lastMinute) => (lastMinute === 0 ? null : make("div", { class: "rate" }, `${lastMinute}/min`));

function place({ place: at, key }) {
  return make("div", { class: "place" },
    at === null ? `key ${key}` : `${at.handler} by ${cut(at.by, MAX_TEXT)}, ${at.file}:${at.line}`);
}

function numbersInForce(limit) {
  const { program, rows, source, overridden, on_error: onError } = limit;
  let origin = `from the ${source}`;
  if (program !== null) {
    origin = `${Object.keys(overridden).join(", ")} from the overrides; the ${source} has ${numbersText(program)}`;
    if ("mode" in overridden) origin += `, ${program.mode}`;
    if ("on_error" in overridden) origin += `, ${program.on_error} in an outage`;
  }
  const more = limit.plan_rows + limit.caller_rows - Math.min(rows.length, MAX_ROWS);
  const named = rows.slice(0, MAX_ROWS).map((row) =>
    `${row.origin} ${cut(row.name, MAX_TEXT)}: ${numbersText(row)}${"mode" in row.overridden ? `, ${row.mode}` : ""}`);
  if (more > 0) named.push(`${rows.length < MAX_ROWS ? "callers with rows of their own" : "further rows"}: ${more}`);
  return make("div", {}, `${numbersText(limit)}, ${limit.algorithm}`,
    make("div", { class: "place" }, `${origin}; ${onError} in an outage`),
    named.map((row) => make("div", { class: "row" }, row)));
}

// What becomes of requests, from below in a picture: the name, what it is called, and how it is drawn between two heights, so that
// kinds differ without their colors.
const KINDS = [
  ["admitted", "admitted", whole],
  ["denied", "denied", whole],
  ["would_deny", "would be denied", thin],
  ["unavailable", "unavailable", striped],
];

function whole(x, lower, upper) {
  return `M${x} ${lower}V${upper}h1V${lower}z`;
}

function thin(x, lower, upper) {
  return `M${x} ${lower}V${upper}h.5V${lower}z`;
}

function striped(x, lower, upper) {
  let path = "";
  for (let at = lower; at > upper; at -= 3) path += whole(x, at, Math.max(at - 2, upper));
  return path;
}

// The last ten minutes in columns, the present on the right.
function picture(bars) {
  const [columns, height, perColumn] = [60, 24, 2];
  const sum = (some) => KINDS.map(([kind]) => some.reduce((count, bar) => count + bar[kind], 0));
  const all = (counts) => counts.reduce((one, other) => one + other);
  const sums = [];
  // From the present back, so that each column but the last is full.
  for (let end = bars.length; end > 0; end -= perColumn) sums.unshift(sum(bars.slice(Math.max(0, end - perColumn), end)));
  const highest = Math.max(1, ...sums.map(all));
  const scaled = (count) => Math.max(Math.floor((count * height) / highest), count > 0 ? 1 : 0);
  const paths = KINDS.map(() => "");
  sums.forEach((counts, column) => {
    let upper = scaled(all(counts));
    // From above: even a few requests of an upper kind are seen.
    for (let kind = KINDS.length - 1; kind >= 0; kind -= 1) {
      const below = scaled(all([0, ...counts.slice(0, kind)]));
      const lower = Math.max(0, Math.min(below, upper - (counts[kind] > 0 ? 1 : 0)));
      if (lower < upper) paths[kind] += KINDS[kind][2](columns - sums.length + column, height - lower, height - upper);
      upper = lower;
    }
  });
  const total = sum(bars);
  const parts = KINDS.map(([, name], kind) => (kind < 2 || total[kind] > 0 ? `${total[kind]} ${name}` : null));
  const title = `last ten minutes: ${parts.filter((part) => part !== null).join(", ")}`;
  const view = { viewBox: `0 0 ${columns} ${height}`, width: 120, height, preserveAspectRatio: "none", role: "img" };
  return make("svg", view, make("title", {}, title),
    KINDS.map(([kind], index) => (paths[index] === "" ? null : make("path", { class: kind, d: paths[index] }))));
}

// What the kinds of a picture look like.
function legend() {
  const sample = (draw) => [0, 1, 2, 3, 4].map((x) => draw(x, 12, 0)).join("");
  return KINDS.map(([kind, name, draw]) => make("span", { class: "kind" },
    make("svg", { viewBox: "0 0 5 12", width: 10, height: 12, preserveAspectRatio: "none", "aria-hidden": "true" },
      make("path", { class: kind, d: sample(draw) })), name));
}

// Gives the controls of the table what they do.
function startLimits() {
  for (const [id, step] of [["previous", -1], ["next", 1]]) {
    byId(id).addEventListener("click", () => {
      page += step;
      showLimits(limits);
    });
  }
  for (const head of sortable()) {
    head.querySelector("button").addEventListener("click", () => orderBy(head.dataset.sort));
  }
  byId("usual").addEventListener("click", () => orderAs(null, false));
  byId("find").addEventListener("input", showFromFirst);
  byId("span").addEventListener("change", showFromFirst);
  byId("legend").append(...legend());
}
