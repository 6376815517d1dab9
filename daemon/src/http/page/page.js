// Fills leafd's page from /state, once a second. Names come from whoever creates tags: they are only
// ever set as text.
"use strict";

const byId = (id) => document.getElementById(id);

// An element with a class and a text.
function make(kind, className, text) {
  const element = document.createElement(kind);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// === numbers and times in words ===

function count(number) {
  if (number === null || number === undefined) return "–";
  for (const [size, letter] of [[1e15, " P"], [1e12, " T"], [1e9, " G"], [1e7, " M"]]) {
    if (number >= size) {
      const unit = letter === " M" ? 1e6 : size;
      return (number / unit).toFixed(number / unit < 100 ? 1 : 0) + letter;
    }
  }
  return Math.round(number).toLocaleString("en");
}

// As leafctl has it: two units at most.
function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.round(ms / 1000);
  if (seconds < 1) return ms > 0 ? Math.round(ms) + " ms" : "0 s";
  const units = [["year", 31557600], ["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[first];
  const whole = Math.floor(seconds / size);
  const plural = (number, name) => number !== 1 && ["year", "day"].includes(name) ? name + "s" : name;
  const named = (number, name) => `${count(number)} ${plural(number, name)}`;
  const rest = Math.floor((seconds % size) / (units[first + 1] || ["", 1])[1]);
  if (first + 1 >= units.length || rest === 0 || whole >= 10 && size >= 86400) return named(whole, unit);
  return `${named(whole, unit)} ${named(rest, units[first + 1][0])}`;
}

const ago = (ms) => ms === null || ms === undefined ? "never" : duration(ms) + " ago";

// === parts of the page ===

// Keeps one element for each key, in this order, so that what stays is not drawn anew.
function keep(parent, items, keyOf, create, update) {
  const known = parent.known || (parent.known = new Map());
  const next = new Map();
  items.forEach((item, place) => {
    const key = keyOf(item, place);
    const element = known.get(key) || create(item);
    next.set(key, element);
    update(element, item);
    if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] || null);
  });
  for (const [key, element] of known) if (next.get(key) !== element) element.remove();
  parent.known = next;
}

function showBar(bar, segments) {
  bar.classList.toggle("nothing", segments.length === 0);
  while (bar.children.length > segments.length) bar.lastChild.remove();
  segments.forEach(({ left, claimed }, place) => {
    const box = bar.children[place] || bar.appendChild(make("span", "box"));
    const fill = box.firstChild || box.appendChild(make("i"));
    box.style.flexGrow = String(Math.max(claimed, 1));
    fill.style.width = `${claimed > 0 ? 100 * left / claimed : 0}%`;
  });
}

function makeTag(tag) {
  const row = make("article", "tag");
  const name = row.appendChild(make("div", "name"));
  name.append(make("bdi", "", tag.tag), make("small"));
  row.append(make("div", "bar"));
  for (const [area, title] of [["rate", "ids/s"], ["lasts", "lasts"], ["ceiling", "of its ceiling"]]) {
    const figure = row.appendChild(make("div", area + " figure"));
    figure.append(make("b"), make("small", "", title));
  }
  return row;
}

function showTag(row, tag, storeAway) {
  const part = (name) => row.querySelector(name);
  const notes = [];
  if (tag.strict) notes.push(tag.holding ? "strict: held by this host" : "strict: each request claims its ids");
  if (tag.waiting > 0) notes.push(`${count(tag.waiting)} waiting requests`);
  setText(part(".name small"), notes.join("; "));
  const bar = part(".bar");
  showBar(bar, tag.segments);
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", `${count(tag.held)} ids held in ${tag.segments.length} segments`);
  bar.title = `${count(tag.held)} ids held, ${count(tag.issued)} issued since the start`;
  setText(part(".rate b"), tag.ids_per_second === 0 && tag.lasts_ms !== null ? "< 1" : count(tag.ids_per_second));
  const lasts = part(".lasts");
  setText(lasts.firstChild, tag.lasts_ms !== null && !tag.strict ? duration(tag.lasts_ms) : "–");
  setText(lasts.lastChild, tag.strict && !tag.holding ? "none are held" : `${count(tag.held)} held`);
  lasts.classList.toggle("soon", !tag.strict && storeAway && tag.lasts_ms !== null && tag.lasts_ms < 120000);
  const used = tag.ceiling_used_percent;
  const ceiling = part(".ceiling");
  setText(ceiling.firstChild, used === null ? "–" : `${used} %`);
  setText(ceiling.lastChild, used === null ? "no ceiling" : `of ${count(tag.ceiling)}`);
  ceiling.classList.toggle("near", used !== null && used >= 90);
}

function showTags(tags, status) {
  const { sums, busiest } = tags;
  const storeAway = status.segments.stores.some((store) => !store.ready);
  keep(byId("tags"), busiest, (tag) => tag.tag, makeTag, (row, tag) => showTag(row, tag, storeAway));
  const inUse = status.segments.tags_in_use === 1 ? "1 tag" : `${count(status.segments.tags_in_use)} tags`;
  const found = find.value ? `${count(sums.tags)} of ${inUse} in use whose names match` : `${inUse} in use on this host`;
  const shown = sums.tags > busiest.length ? `; the busiest ${busiest.length} are shown` : "";
  const together = sums.tags > 0 ? `; together ${count(sums.ids_per_second)} ids/s, ${count(sums.held)} held` : "";
  const none = sums.tags === 0 && !find.value ? ". A tag is in use from the first id that a process of this host draws of it" : "";
  setText(byId("sums"), found + together + shown + none + ".");
}

// A card with a title, a state, and lines of what and how much.
function showCard(card, title, state, lines, bar) {
  if (!card.firstChild) {
    card.append(make("span", "state"), make("h3"), make("div", "bar"), make("dl"));
    card.querySelector("h3").append(make("bdi"));
  }
  setText(card.querySelector("bdi"), title);
  const told = card.querySelector(".state");
  setText(told, state.text);
  told.className = "state " + (state.good ? "ok" : "error");
  const strip = card.querySelector(".bar");
  strip.hidden = !bar;
  if (bar) showBar(strip, bar);
  const shown = lines.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  keep(card.querySelector("dl"), shown.flatMap(([name, value]) => [["dt", name, name], ["dd", name, String(value)]]),
    ([kind, name]) => kind + name, ([kind]) => make(kind), (element, [, , text]) => setText(element, text));
}

function showStore(card, store) {
  const lost = store.failovers === 0 ? "none since the start" : `${count(store.failovers)} since the start`;
  const claims = store.claims;
  const failed = Object.entries(claims).filter(([result, times]) => result !== "granted" && times > 0);
  const mean = store.claim_seconds.count > 0 ? duration(1000 * store.claim_seconds.sum / store.claim_seconds.count) : "–";
  showCard(card, store.url ? (store.name === "" ? store.url : `${store.name} (${store.url})`) : store.name || "store",
    { good: store.ready, text: store.ready ? "ready" : "not ready" }, [
      ["trouble", store.error],
      ["answered", ago(store.answered_ms_ago)],
      ["last claim", store.claimed_ms_ago === null ? "none yet" : ago(store.claimed_ms_ago)],
      ["claims", claims.granted === 0 ? "none granted yet" : `${count(claims.granted)} granted, in ${mean} on average`],
      ["not granted", failed.map(([result, times]) => `${count(times)} ${result.replaceAll("_", " ")}`).join(", ")],
      ["fail-overs", lost],
      ["claims pause", store.settling_ms > 0 ? `${duration(store.settling_ms)} more, after a fail-over` : ""],
      ["role", store.role],
      ["identity", store.store_id],
      ["history", store.history],
    ]);
}

function showWorker(status) {
  const { snowflake } = status;
  const lease = snowflake.lease || {};
  const cards = [["worker"], ...snowflake.layouts.map((layout) => ["layout", layout])];
  keep(byId("worker"), cards, ([kind, layout]) => kind + (layout ? layout.name : ""), () => make("article", "card"), (card, [kind, layout]) => {
    if (kind === "worker") return showLease(card, snowflake, lease);
    const mark = layout.mark_ms === null ? "" : new Date(layout.mark_ms).toLocaleTimeString();
    showCard(card, `layout ${layout.name}`, { good: true, text: "" }, [
      ["ids", `${count(layout.issued)} since the start`],
      ["ahead of clock", layout.clock_ahead_ms > 0 ? `${duration(layout.clock_ahead_ms)}: ids run ahead of this host’s clock` : "no"],
      ["journal", mark && `ids before ${mark} may have been issued`],
      ["time left", `${duration(layout.time_left_ms)} until its time bits are exhausted`],
      ["bits", `${layout.time_bits} time of ${layout.unit_ms} ms, ${layout.worker_bits} worker, ${layout.sequence_bits} sequence`],
    ]);
  });
}

function showLease(card, snowflake, lease) {
  const offset = lease.clock_offset_ms;
  const side = offset < 0 ? "behind" : "ahead of";
  const lasted = lease.left_ms + lease.renewed_ms_ago;
  const bar = lease.left_ms !== null && lease.left_ms !== undefined ? [{ left: lease.left_ms, claimed: Math.max(lasted, lease.left_ms) || 1 }] : null;
  showCard(card, snowflake.worker === null ? (snowflake.ready ? "no worker yet" : "no worker") : `worker ${snowflake.worker}`,
    { good: snowflake.ready, text: snowflake.ready ? "ready" : "not ready" }, [
      ["trouble", snowflake.worker_error],
      ["registry", lease.place || snowflake.registry],
      ["worker", snowflake.worker === null && snowflake.ready ? "is leased for the first snowflake id" : ""],
      ["mode", lease.mode],
      ["lease", bar && `${duration(lease.left_ms)} left: snowflake ids last this long without the registry`],
      ["renewed", lease.renewed_ms_ago === null || lease.renewed_ms_ago === undefined ? "" : ago(lease.renewed_ms_ago)],
      ["this clock", offset === null || offset === undefined ? "" : `${(Math.abs(offset) / 1000).toFixed(3)} s ${side} the registry’s`],
      ["clock error", lease.clock_error],
      ["held back", lease.clock_held_back_ms > 0 ? `by ${duration(lease.clock_held_back_ms)}, until the registry confirms the step` : ""],
    ], bar);
}

function showConditions(health) {
  byId("health").hidden = health.conditions.length === 0;
  const more = health.conditions_left_out;
  setText(byId("further"), more > 0 ? `and ${count(more)} more, none of them worse` : "");
  keep(byId("conditions"), health.conditions, (condition) => condition.code + " " + condition.subject, () => make("article"), (element, condition) => {
    element.className = "condition " + condition.severity;
    const lines = [
      condition.message || `${condition.code.replaceAll("_", " ")}${condition.subject && ` (${condition.subject})`}`,
      `for ${duration(condition.since_ms_ago)}` + (condition.meaning ? `; ${condition.meaning}` : ""),
      condition.remedy ? `What to do: ${condition.remedy}` : "",
    ].filter((line) => line !== "");
    keep(element, lines, (_, place) => place, () => make("p"), setText);
  });
}

function showTotals(status) {
  const { ids, segments } = status;
  const layouts = status.snowflake.layouts.reduce((sum, layout) => sum + layout.issued, 0);
  const refused = Object.values(status.refusals).reduce((sum, times) => sum + times, 0);
  keep(byId("totals"), [
    ["segment ids since the start", count(segments.issued)],
    ["snowflake ids since the start", count(layouts)],
    ["of all ids were in held runs", ids.in_held_runs + ids.direct > 0 ? Math.round(100 * ids.in_held_runs / (ids.in_held_runs + ids.direct)) + " %" : "–"],
    ["connections", count(status.connections)],
    ["requests refused since the start", count(refused)],
  ], ([title]) => title, ([title]) => {
    const box = make("div", "total");
    box.append(make("b"), make("span", "muted", title));
    return box;
  }, (box, [, value]) => setText(box.firstChild, value));
}

function showUsers(users) {
  byId("users-section").hidden = !users;
  keep(byId("users"), users || [], (user) => String(user.uid), () => {
    const row = make("tr");
    row.append(make("td"), make("td"), make("td"), make("td"));
    return row;
  }, (row, user) => {
    const cells = [user.uid === null ? "all others" : user.uid, count(user.ids_per_second), count(user.issued), count(user.connections)];
    cells.forEach((text, place) => setText(row.children[place], String(text)));
  });
}

function showEvents(events) {
  byId("events-section").hidden = !events;
  keep(byId("events"), events || [], (event) => `${event.unix_ms} ${event.text}`, (event) => {
    const line = make("li", event.level);
    const at = new Date(event.unix_ms);
    const day = at.toDateString() === new Date().toDateString() ? "" : at.toLocaleDateString() + " ";
    const time = make("time", "", day + at.toLocaleTimeString());
    time.dateTime = at.toISOString();
    line.append(time, make("bdi", "", event.text + (event.times > 1 ? ` (logged ${event.times} times)` : "")));
    return line;
  }, () => {});
}

function show({ status, tags, administers }) {
  document.body.classList.remove("waiting");
  const { health } = status;
  document.title = `leafd on ${status.host || location.hostname}`;
  byId("dot").className = health.state;
  const wrong = health.conditions.length + health.conditions_left_out;
  setText(byId("headline"), health.line + (wrong > 0 ? `; ${count(wrong)} ${wrong === 1 ? "problem" : "problems"}` : ""));
  setText(byId("host"), [status.host, `up ${duration(status.uptime_ms)}`, `release ${status.release}`].filter(Boolean).join(" · "));
  showConditions(health);
  showTotals(status);
  showTags(tags, status);
  keep(byId("stores"), status.segments.stores, (store) => store.name, () => make("article", "card"), showStore);
  showWorker(status);
  showUsers(status.users);
  showEvents(status.events);
  byId("hidden-parts").hidden = administers;
}

// === asking the daemon ===

const EVERY_MS = 1000;
const SILENT_MS = 6000;
const find = byId("find");
let heard = Date.now();
let next = 0;
let asked = 0;

// Says why the page is not up to date; with no reason, that it is.
function away(why) {
  byId("away").hidden = !why;
  if (why) {
    setText(byId("away"), why);
    setText(byId("headline"), "not up to date");
    byId("dot").className = "";
  }
  document.body.classList.toggle("away", Boolean(why));
}

async function update() {
  clearTimeout(next);
  const turn = ++asked;
  let state = null;
  let why = "";
  try {
    const answer = await fetch("state?find=" + encodeURIComponent(find.value), { signal: AbortSignal.timeout(SILENT_MS) });
    if (answer.ok) state = await answer.json();
    else why = "The daemon answers: " + await answer.text();
  } catch {
    const since = new Date(heard).toLocaleTimeString();
    why = `The daemon has not answered since ${since}: it has stopped or is unreachable. The values below are from then. This page keeps trying. Processes may still hold ids.`;
  }
  // A later question is under way, or nobody sees the page.
  if (turn !== asked || document.hidden) return;
  if (state) heard = Date.now();
  away(why);
  next = setTimeout(update, EVERY_MS);
  if (state) show(state);
}

find.addEventListener("input", () => {
  clearTimeout(next);
  next = setTimeout(update, 250);
});

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) update();
});

update();
