'use strict';
// One tag of a client: its current run, and how the next one is fetched.

const { closed } = require('./errors.js');
const { COUNT_MAX, idsRequest, readIds } = require('./wire.js');

const RUN_COUNT_MAX = 65_536;
const FIRST_COUNT = 4; // small, because a process may draw a few ids and exit
const LONG_FLOOR = 4; // the minimum size of a run of long-lived ids
const SHORT_RUN_COUNT = 256; // runs of fewer ids are short
const GROWTH_MAX = 16;
const SHORT_HOLD_MS = 1000; // ids that may be held for less are short-lived
const SHORT_RUN_MS = 3;
const LONG_RUN_MIN_MS = 250;
const LONG_RUN_MAX_MS = 2000;

/** Computes the size of the next run from the use of the last one. It reads no clock. */
function nextWish(wish, { holdMs, count }, used, lastedMs) {
  const [taken, lasted] = [Math.max(used, 1), Math.max(lastedMs, 1e-6)];
  let [next, floor] = [wish, LONG_FLOOR];
  if (holdMs < SHORT_HOLD_MS) {
    floor = 1;
    next = (taken * Math.min(SHORT_RUN_MS, holdMs / 2)) / lasted;
  } else if ((lasted * count) / taken < LONG_RUN_MIN_MS) {
    next = wish * 2;
  } else if ((lasted * count) / taken > LONG_RUN_MAX_MS) {
    next = wish / 2;
  }
  return Math.max(floor, Math.floor(Math.min(next, wish * GROWTH_MAX, RUN_COUNT_MAX)));
}

/** A held run. Its first `owed` ids belong to calls that began before the request for it was sent. */
class HeldRun {
  constructor({ first, count, stride }, holdMs, sent, owed = 0) {
    Object.assign(this, { count, holdMs, sent, owed, used: 0, first, stride: BigInt(stride) });
    // A long run is used quickly, so half of it is left for the time until the answer arrives. A short run is used
    // slowly, or its process has just started and may exit soon, so the later the request, the fewer ids are skipped.
    this.refillAt = count < SHORT_RUN_COUNT ? count - Math.floor((count + 3) / 4) : Math.floor(count / 2);
  }

  /** Checks two clocks: the monotonic one stops while the machine is suspended, and the wall clock can be set. */
  get isTooOld() {
    return performance.now() - this.sent.monotonic >= this.holdMs || Date.now() - this.sent.wall >= this.holdMs;
  }
}

class Supply {
  #link;
  #tag;
  #direct;
  #current;
  #queued = [];
  #wish = FIRST_COUNT;
  #unlearned;
  #installedAt = 0;
  #fetching = false;
  #waiting = new Set();
  #neverHold = false;
  #closed = false;

  constructor(link, tag, direct) {
    [this.#link, this.#tag, this.#direct] = [link, tag, direct];
  }

  /** The next id of the held run, or undefined. */
  take() {
    while (this.#current !== undefined) {
      const run = this.#current;
      const { isTooOld } = run;
      if (run.used < (isTooOld ? run.owed : run.count)) {
        const offset = run.used++;
        if (offset === run.refillAt && !isTooOld) this.#fetch(true);
        return run.first + BigInt(offset) * run.stride;
      }
      this.#installNext();
    }
    return undefined;
  }

  next(options) {
    const call = this.#link.call(options);
    if (this.#closed) return Promise.reject(closed());
    if (this.#direct || this.#neverHold) return this.#nextUnheld(call);
    const waiter = { call };
    return this.#link.limited(call, (resolve, reject) => {
      Object.assign(waiter, { resolve, reject });
      this.#waiting.add(waiter);
      this.#fetch();
    }, () => this.#waiting.delete(waiter));
  }

  async nextDirect(options) {
    const { runs: [{ first }] } = await this.#draw(this.#link.call(options), 1, false);
    return first;
  }

  async nextBatch(count, options) {
    const [call, ids] = [this.#link.call(options), []];
    while (ids.length < count) {
      const { runs } = await this.#draw(call, Math.min(count - ids.length, COUNT_MAX), false);
      for (const { first, count: left, stride } of runs) {
        for (let offset = 0; offset < left; offset++) ids.push(first + BigInt(offset) * BigInt(stride));
      }
    }
    return ids;
  }

  close() {
    this.#closed = true;
    this.#current = undefined;
    this.#queued = [];
  }

  #draw(call, count, hold) {
    let sent;
    return this.#link.ask(call, (leftMs) => {
      sent = { monotonic: performance.now(), wall: Date.now() };
      return idsRequest(hold, count, leftMs, this.#tag);
    }, (body) => ({ ...readIds(body, count, hold), sent }));
  }

  /** Draws a single id that may not be held. */
  async #nextUnheld(call) {
    const { holdMs, runs: [{ first }] } = await this.#draw(call, 1, !this.#direct);
    this.#neverHold &&= holdMs === 0; // otherwise the tag was recreated
    return first;
  }

  /** Fetches a run, for waiting calls or ahead of use. */
  #fetch(ahead = false) {
    const before = [...this.#waiting];
    const wanted = ahead ? this.#queued.length === 0 && this.#link.canSend : before.length > 0;
    if (this.#fetching || !wanted) return;
    this.#fetching = true;
    this.#learn();
    const call = this.#link.call();
    call.endAt = before.reduce((end, waiter) => Math.max(end, waiter.call.endAt), ahead ? call.endAt : 0);
    const count = Math.min(Math.max(this.#wish, before.length), RUN_COUNT_MAX);
    const drawn = this.#draw(call, count, true).finally(() => { this.#fetching = false; });
    drawn.then((reply) => this.#stow(reply, before), (error) => {
      // An error of a fetch ahead of use is ignored, because the next fetch reports the current one.
      for (const waiter of before) if (this.#waiting.delete(waiter)) waiter.reject(error);
    }).then(() => this.#fetch());
  }

  #stow({ holdMs, runs, sent }, before) {
    if (this.#closed) return;
    if (holdMs === 0) {
      // All ids except the first are skipped.
      this.#neverHold = true;
      const [first, ...others] = this.#waiting;
      this.#waiting.clear();
      first?.resolve(runs[0].first);
      for (const waiter of others) this.#nextUnheld(waiter.call).then(waiter.resolve, waiter.reject);
      return;
    }
    // Calls that began before the request was sent get ids even if the answer is late, because the daemon issued these
    // ids after the calls began.
    let owed = before.filter((waiter) => this.#waiting.has(waiter)).length;
    for (const run of runs) {
      this.#queued.push(new HeldRun(run, holdMs, sent, Math.min(owed, run.count)));
      owed = Math.max(0, owed - run.count);
    }
    if (this.#current === undefined) this.#installNext();
    for (const waiter of this.#waiting) {
      const id = this.take();
      if (id === undefined) return;
      this.#waiting.delete(waiter);
      waiter.resolve(id);
    }
  }

  #installNext() {
    this.#learn();
    do this.#current = this.#queued.shift(); while (this.#current?.isTooOld && this.#current.owed === 0);
    this.#unlearned = this.#current;
    // Only waiting calls use a run that arrived too late, so the rate is that of the round trips.
    this.#installedAt = this.#current?.isTooOld ? this.#current.sent.monotonic : performance.now();
  }

  /** Updates the size of the next run from the use of the current one, once per run. */
  #learn() {
    if (this.#unlearned === undefined) return;
    const run = this.#unlearned;
    this.#unlearned = undefined;
    this.#wish = nextWish(this.#wish, run, run.used, performance.now() - this.#installedAt);
  }
}

module.exports = { HeldRun, Supply, nextWish };
