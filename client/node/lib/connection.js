'use strict';
// One connection: it gives each reply to its request.

const net = require('node:net');
const { LeafdError, broken, statusOf } = require('./errors.js');
const { HEADER_BYTES, REPLY, readHeader, readRefusal } = require('./wire.js');

/** Why a connection ended, if what was asked may be asked again on another one. */
class Break extends Error {}

class Connection {
  #socket;
  #received = Buffer.alloc(0);
  #inFlight = new Map();
  #lastId = 0;
  #onEnd;
  served = false;
  ended = false;

  /** onConnect is called once there is a connection, onEnd(error) once there is none any more. */
  constructor(path, onConnect, onEnd) {
    this.#onEnd = onEnd;
    // Calls keep the process alive while they wait, by their timers.
    this.#socket = net.connect(path).unref();
    this.#socket.on('connect', onConnect);
    this.#socket.on('data', (bytes) => this.#receive(bytes));
    this.#socket.on('error', (error) => this.end(error));
    this.#socket.on('close', () => this.end(new Error('the daemon closed it')));
  }

  get inFlight() { return this.#inFlight.size; }

  /** Sends a frame. done(error, body) is called once. */
  send(frame, done) {
    do {
      this.#lastId = (this.#lastId + 1) >>> 0;
      // The daemon addresses the whole connection with the id 0.
    } while (this.#lastId === 0 || this.#inFlight.has(this.#lastId));
    frame.writeUInt32LE(this.#lastId, 8);
    this.#inFlight.set(this.#lastId, { opcode: frame[4], done });
    this.#socket.write(frame);
  }

  /** Closes the connection and fails all its requests, with the daemon's refusal if there is one. */
  end(error, refusal) {
    if (this.ended) return;
    this.ended = true;
    this.#socket.destroy();
    const requests = [...this.#inFlight.values()];
    this.#inFlight.clear();
    this.#onEnd(error);
    const why = refusal ?? (error instanceof LeafdError ? error : new Break(error.message, { cause: error }));
    for (const request of requests) request.done(why);
  }

  #receive(bytes) {
    this.#received = this.#received.length > 0 ? Buffer.concat([this.#received, bytes]) : bytes;
    try {
      while (!this.ended && this.#received.length >= HEADER_BYTES) {
        const header = readHeader(this.#received);
        if (this.#received.length < header.frameBytes) return;
        const body = this.#received.subarray(HEADER_BYTES, header.frameBytes);
        this.#received = this.#received.subarray(header.frameBytes);
        this.#dispatch(header, body);
      }
    } catch (error) {
      this.end(error);
    }
  }

  #dispatch({ opcode, status, id }, body) {
    const { closes } = statusOf(status);
    if (id === 0 && closes) {
      // This is addressed to all requests on the connection.
      this.end(new Error('the daemon closed it'), readRefusal(status, body));
      return;
    }
    const request = this.#inFlight.get(id);
    if (request === undefined || opcode !== request.opcode + REPLY) throw broken('a reply belongs to no request');
    this.#inFlight.delete(id);
    this.served ||= status === 0;
    const refusal = status === 0 ? undefined : readRefusal(status, body);
    request.done(refusal, body);
    if (refusal?.code === 'PROTOCOL') throw refusal;
    if (closes) this.end(new Error('the daemon closed it'));
  }
}

module.exports = { Break, Connection };
