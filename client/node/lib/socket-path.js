'use strict';
// Where the daemon's socket is.

const fs = require('node:fs');
const path = require('node:path');

const SYSTEM = '/run/leafd/leafd.sock';
const JUST_GONE_MS = 10_000;

/** $LEAFD_SOCKET if set; for root the system's socket; else the first existing one of the user's own and the system's. */
function defaultSocket(variables = process.env, root = process.geteuid?.() === 0, exists = fs.existsSync) {
  if (variables.LEAFD_SOCKET) return variables.LEAFD_SOCKET;
  if (root) return SYSTEM;
  const absolute = (folder) => (folder !== undefined && path.isAbsolute(folder) ? folder : undefined);
  const home = absolute(variables.HOME);
  const state = absolute(variables.XDG_STATE_HOME) ?? (home && path.join(home, '.local/state'));
  const own = [absolute(variables.XDG_RUNTIME_DIR), state].filter(Boolean).map((folder) => path.join(folder, 'leafd/leafd.sock'));
  const known = [...own, SYSTEM];
  return known.find((socket) => exists(socket)) ?? known[0];
}

/** Whether a socket exists, or was removed recently: its lock file remains, and the directory has just changed. */
function mayComeBack(socket) {
  try {
    if (fs.existsSync(socket)) return true;
    return Date.now() - fs.statSync(path.dirname(socket)).mtimeMs < JUST_GONE_MS && fs.existsSync(`${socket}.lock`);
  } catch {
    return false;
  }
}

module.exports = { defaultSocket, mayComeBack };
