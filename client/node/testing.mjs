import testing from './testing.js';

export const { FakeClient } = testing;
