'use strict';
// Document numbers.

const { invalid } = require('./errors.js');
const { COUNT_MAX, NUMBERS_MAX, readNumbers, seriesRequest, tagBytes } = require('./wire.js');

/** Draws the document numbers of a series, or of one of its tenants. */
class Series {
  #link;
  #name;
  #tenant;

  constructor(link, name, { tenant = '' } = {}) {
    this.#link = link;
    this.#name = tagBytes(name, 'series name');
    this.#tenant = tenant === '' ? Buffer.alloc(0) : tagBytes(tenant, 'tenant');
  }

  async next(options) {
    const [number] = await this.nextBatch(1, options);
    return number;
  }

  async nextBatch(count, options) {
    if (!(Number.isInteger(count) && count >= 0 && count <= COUNT_MAX)) {
      throw invalid(`a batch has 0 to ${COUNT_MAX} document numbers, not ${count}`);
    }
    const [call, numbers] = [this.#link.call(options), []];
    while (numbers.length < count) {
      const some = Math.min(count - numbers.length, NUMBERS_MAX);
      numbers.push(...await this.#link.ask(call, (leftMs) => seriesRequest(some, leftMs, this.#name, this.#tenant),
        (body) => readNumbers(body, some)));
    }
    return numbers;
  }
}

module.exports = { Series };
