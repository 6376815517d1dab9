// Exports the classes to ES modules, so that `import` and `require` share them.
import leafd from './index.js';

export const { Client, LEAF, LeafdError, decode, defaultSocket, firstIdAt } = leafd;
