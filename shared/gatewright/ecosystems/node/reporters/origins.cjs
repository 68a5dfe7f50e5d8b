'use strict';
// Tells when a file of the workspace asks for the project by its name, and gets a copy that is installed: the copy would be
// tested. Of modules that are required; what is imported, and what jest and vitest resolve by themselves, is not seen.
const Module = require('node:module');
const { order, tell } = require('./tell.cjs');

const told = new Set();
const resolve = Module._resolveFilename;

function isOwnFile(file) {
  return typeof file === 'string' && file.startsWith(`${order.workspace}/`) && !file.includes('/node_modules/');
}

Module._resolveFilename = function (request, parent, ...rest) {
  const found = resolve.call(this, request, parent, ...rest);
  const name = order.own.find((each) => request === each || request.startsWith(`${each}/`));
  if (name !== undefined && !told.has(name) && isOwnFile(parent?.filename) && !isOwnFile(found)) {
    told.add(name);
    tell({ kind: 'origin', name, path: found });
  }
  return found;
};
