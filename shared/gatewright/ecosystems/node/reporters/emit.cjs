'use strict';
// Writes records to the pipe, for every reporter of this folder. See records.py for their form.
const fs = require('node:fs');
const path = require('node:path');

const order = JSON.parse(fs.readFileSync(path.join(__dirname, 'order.json'), 'utf8'));
const LONGEST_ID = 600;
const MOST_MILLISECONDS = 86400000;
let pipe = null;

function emit(record) {
  pipe ??= fs.openSync(order.pipe.replace('@FOLDER@', __dirname), fs.constants.O_WRONLY);
  fs.writeSync(pipe, `${JSON.stringify({ token: order.token, ...record })}\n`);
}

const seen = new Map();

// A name that is given twice is two tests here, unlike elsewhere: the second one is reported as such.
function identify(file, titles) {
  const id = short([path.relative(order.workspace, file), titles.join(' > ')].filter((part) => part !== '').join('::'));
  const count = (seen.get(id) ?? 0) + 1;
  seen.set(id, count);
  return count === 1 ? id : `${id} #${count}`;
}

function short(text) {
  const cut = text.length > LONGEST_ID ? `${text.slice(0, LONGEST_ID - 20)}... ${digest(text)}` : text;
  // Half of a pair is no text to a reader of JSON, and a title, or its end after it was cut, may have one.
  return cut.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}

function digest(text) {
  return require('node:crypto').createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function emitTest(file, titles, outcome) {
  const id = identify(file, titles);
  emit({ kind: 'collected', id });
  emit({ kind: 'test', id, outcome });
}

// What loading a file of tests took, where the runner knows it.
function emitTook(file, milliseconds) {
  if (!Number.isFinite(milliseconds)) return;
  const whole = Math.min(Math.max(Math.round(milliseconds), 1), MOST_MILLISECONDS);
  emit({ kind: 'took', path: short(path.relative(order.workspace, file)), milliseconds: whole });
}

let ended = false;

// The end is reported when the process exits, with its exit code, and only if the runner has finished. Runners set the
// exit code in listeners of their own (jest does): ours stays the last one.
function begin(framework, version) {
  emit({ kind: 'begin', framework, version });
  const end = (status) => {
    if (ended) emit({ kind: 'end', status: Number(process.exitCode ?? status ?? 0) });
  };
  process.on('exit', end);
  process.on('newListener', (name, listener) => {
    if (name === 'exit' && listener !== end) {
      queueMicrotask(() => {
        process.off('exit', end);
        process.on('exit', end);
      });
    }
  });
}

function through() {
  ended = true;
}

module.exports = { order, begin, emit, emitTest, emitTook, through };
