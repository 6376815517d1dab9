'use strict';
// The link to the daemon: it keeps one connection, replaces it when it breaks, and retries requests.

const { Break, Connection } = require('./connection.js');
const { LeafdError, closed, invalid } = require('./errors.js');
const { mayComeBack } = require('./socket-path.js');
const { DEADLINE_MS_MAX } = require('./wire.js');

const IN_FLIGHT_MAX = 1024; // the number of requests that the daemon accepts on a connection before it answers one
const GRACE_MS = 250; // how much longer a call waits than the daemon may, so that the daemon's error arrives in time
const BACK_OFF_MIN_MS = 2;
const BACK_OFF_MAX_MS = 100;

// A request is retried once if its connection had answered before, because then the daemon is restarting. It is retried up
// to five times if new connections never answer, because then the daemon is still stopping or starting.
const BREAKS_MAX = 5;
const SERVED_BREAK_COST = 3;

const now = () => performance.now();
const isDenied = (error) => error.code === 'EACCES' || error.code === 'EPERM';

class Link {
  #connection;
  #connected = false;
  #closed = false;
  #reached = false;
  #lastError;
  #nextTry = 0;
  #backOffMs = BACK_OFF_MIN_MS;
  #timer;
  #queue = new Set(); // calls that wait for a connection, or for their turn

  constructor(path, timeoutMs, wait) {
    Object.assign(this, { path, timeoutMs, wait });
  }

  /** The limits of a call, from its options. */
  call({ signal, timeoutMs = this.timeoutMs } = {}) {
    if (!(timeoutMs >= 0)) throw invalid(`timeoutMs is from 0, not ${timeoutMs}`);
    signal?.throwIfAborted();
    const startAt = now();
    return { signal, startAt, endAt: startAt + Math.min(timeoutMs, DEADLINE_MS_MAX) };
  }

  /**
   * Returns a promise that `start(resolve, reject)` settles. If the call times out or is aborted first, the promise
   * rejects and `drop` is called.
   */
  limited(call, start, drop) {
    return new Promise((resolve, reject) => {
      const over = (error) => {
        settle();
        drop(error);
        reject(error);
      };
      // After the event loop was blocked, it runs timers before it reads. An answer that has arrived takes precedence.
      let unanswered;
      const onTime = () => { unanswered = setImmediate(() => over(this.#timedOut(call))); };
      const timer = setTimeout(onTime, call.endAt + GRACE_MS - now());
      const onAbort = () => over(call.signal.reason);
      const settle = () => {
        clearTimeout(timer);
        clearImmediate(unanswered);
        call.signal?.removeEventListener('abort', onAbort);
      };
      call.signal?.addEventListener('abort', onAbort);
      start((value) => { settle(); resolve(value); }, (error) => { settle(); reject(error); });
    });
  }

  #timedOut(call) {
    if (!this.#connected && this.#lastError) return this.#unreachable(this.#lastError);
    return new LeafdError('TIMED_OUT', `leafd did not answer within ${Math.round(now() - call.startAt)} ms; retry, allow more `
      + "time, or check the daemon's log");
  }

  /** Sends a request that is safe to retry, and resolves to the result of `read`. */
  ask(call, frame, read) {
    const request = { call, frame, read, cost: 0 };
    return this.limited(call, (resolve, reject) => {
      Object.assign(request, { resolve, reject });
      this.#submit(request);
    }, () => {
      request.over = true;
      this.#queue.delete(request);
    });
  }

  #submit(request) {
    if (this.#closed) {
      request.reject(closed());
    } else if (this.canSend) {
      this.#send(request);
    } else {
      this.#queue.add(request);
      this.#connect();
    }
  }

  /** Whether a request can be sent without waiting. */
  get canSend() { return this.#connected && this.#connection.inFlight < IN_FLIGHT_MAX; }

  #send(request) {
    const connection = this.#connection;
    const leftMs = Math.ceil(Math.max(0, request.call.endAt - now()));
    connection.send(request.frame(leftMs), (error, body) => {
      if (!request.over) this.#answered(request, connection, error, body);
      this.#flush();
    });
  }

  #answered(request, connection, error, body) {
    if (error === undefined) {
      try {
        request.resolve(request.read(body));
      } catch (wrong) {
        request.reject(wrong);
        connection.end(wrong);
      }
      return;
    }
    if (error instanceof Break) request.cost += connection.served ? SERVED_BREAK_COST : 1;
    const stopping = error.code === 'SHUTTING_DOWN' && now() < request.call.endAt;
    if (!(error instanceof Break || stopping)) {
      request.reject(error);
    } else if (request.cost > BREAKS_MAX) {
      request.reject(new LeafdError('DISCONNECTED', `the connection to leafd at ${this.path} broke before the answer came: `
        + `${error.message}; the daemon may be restarting, check its log`, { cause: error }));
    } else {
      this.#submit(request);
    }
  }

  #flush() {
    for (const request of this.#queue) {
      if (!this.canSend) return;
      this.#queue.delete(request);
      this.#send(request);
    }
  }

  /** Connects now, or after the pause that is due. */
  #connect() {
    if (this.#connection !== undefined || this.#timer !== undefined || this.#closed) return;
    const pause = this.#nextTry - now();
    if (pause > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        if (this.#queue.size > 0) this.#connect();
      }, pause).unref();
      return;
    }
    this.#connection = new Connection(this.path, () => {
      this.#connected = this.#reached = true;
      this.#flush();
    }, (error) => this.#lost(error));
  }

  #lost(error) {
    const [wasConnected, { served }] = [this.#connected, this.#connection];
    [this.#connection, this.#connected, this.#lastError] = [undefined, false, error];
    if (served) {
      this.#backOffMs = BACK_OFF_MIN_MS;
    } else {
      this.#nextTry = now() + this.#backOffMs * (0.75 + Math.random() / 2);
      this.#backOffMs = Math.min(2 * this.#backOffMs, BACK_OFF_MAX_MS);
    }
    if (!wasConnected && (isDenied(error) || !(this.wait || this.#reached || mayComeBack(this.path)))) {
      for (const request of this.#queue) request.reject(this.#unreachable(error));
      this.#queue.clear();
    } else if (this.#queue.size > 0) {
      this.#connect();
    }
  }

  #unreachable(error) {
    const hint = isDenied(error) ? 'the socket\'s group and mode do not admit this user; see the settings socket_group and socket_mode'
      : 'is the daemon running, and is this its socket? LEAFD_SOCKET can name another path';
    return new LeafdError('UNREACHABLE', `cannot connect to leafd at ${this.path}: ${error.message}; ${hint}`,
      { cause: error, retryable: !isDenied(error) });
  }

  close() {
    this.#closed = true;
    for (const request of this.#queue) request.reject(closed());
    this.#queue.clear();
    this.#connection?.end(closed());
  }
}

module.exports = { Link };
