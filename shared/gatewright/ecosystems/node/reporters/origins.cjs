'use strict';
// Reports when a file of the workspace imports the project by name and gets an installed copy: the copy would be
// tested. Of modules that are required; what is imported, and what jest and vitest resolve by themselves, is not seen.
const Module = require('node:module');
const { order, emit } = require('./emit.cjs');

const reported = new Set();
const resolve = Module._resolveFilename;

function isOwnFile(file) {
  return typeof file === 'string' && file.startsWith(`${order.workspace}/`) && !file.includes('/node_modules/');
}

Module._resolveFilename = function (request, parent, ...rest) {
  const found = resolve.call(this, request, parent, ...rest);
  const name = order.own.find((each) => request === each || request.startsWith(`${each}/`));
  if (name !== undefined && !reported.has(name) && isOwnFile(parent?.filename) && !isOwnFile(found)) {
    reported.add(name);
    emit({ kind: 'origin', name, path: found });
  }
  return found;
};
