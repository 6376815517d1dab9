// The same classes for modules, so that both kinds of importers share them.
import leafd from './index.js';

export const { Client, LEAF, LeafdError, decode, defaultSocket, firstIdAt } = leafd;
