// Shows the state of the server. It reads the API every second and builds text only with `textContent`, since names and
// reasons come from the configuration and the network.
'use strict';

const $ = id => document.getElementById(id);
const mayDrain = document.querySelector('[name=may-drain]').content === 'yes';
const KEY = 'sarabande-token';
/** Pools with more members show only members that are not up. */
const MANY = 20;
/** With more members the server sends only those that are shown, every other second. */
const VERY_MANY = 100;
/** Most rows of a pool. */
const ROWS = 100;
/** Window of rates and mean times in seconds. */
const WINDOW = 30;

// --- Text ---

const digits = (value, most) => value.toLocaleString('en', { maximumFractionDigits: most });
const number = value => value == null ? '–' : digits(value, value < 10 ? 2 : value < 100 ? 1 : 0);
/** With one digit after the point, for columns. */
const decimal = value => value ? value.toLocaleString('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 }) : number(value);
const percent = value => `${digits(value * 100, 1)} %`;
const plural = (count, noun) => `${digits(count)} ${noun}${count === 1 ? '' : 's'}`;

function span(seconds) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const at = units.findIndex(([unit]) => seconds >= unit);
  if (at < 0) return '0 s';
  const [[unit, name], next] = [units[at], units[at + 1]];
  const rest = next && Math.floor(seconds % unit / next[0]);
  return `${Math.floor(seconds / unit)} ${name}` + (rest && at < 2 ? ` ${rest} ${next[1]}` : '');
}

// --- The document ---

function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  return element;
}

/** Changes only if something is new, so that the browser draws less and selections remain. */
function set(element, text, className) {
  if (element.textContent !== String(text)) element.textContent = text;
  if (className !== undefined && element.className !== className) element.className = className;
}

/**
 * Makes the rows of a table equal to `items`. A column is [name, value of an item, class of the cells, meaning]. A value
 * is a text, or [text, further class], or a function that fills the cell.
 */
function fill(table, columns, items, key) {
  if (!table.tHead) {
    const row = table.createTHead().insertRow();
    for (const [name, , className = '', title = ''] of columns) {
      const cell = make('th', className, name);
      cell.scope = 'col';
      cell.title = title;
      row.append(cell);
    }
    table.createTBody();
  }
  const body = table.tBodies[0];
  const old = new Map(Array.from(body.rows, row => [row.dataset.key, row]));
  items.forEach((item, index) => {
    const name = key(item);
    let row = old.get(name);
    old.delete(name);
    if (!row) {
      row = make('tr');
      row.dataset.key = name;
      for (const [label, , className = ''] of columns) {
        const cell = row.insertCell();
        cell.dataset.label = label;
        cell.className = className;
      }
    }
    columns.forEach(([, value, className = ''], at) => {
      const [cell, shown] = [row.cells[at], value(item)];
      if (typeof shown === 'function') return shown(cell);
      const [text, more] = Array.isArray(shown) ? shown : [shown, shown === '0' ? 'zero' : ''];
      set(cell, text, `${className} ${more}`.trim());
    });
    if (body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
  old.forEach(row => row.remove());
}

/** Makes a list of terms equal to `pairs` of term and value. */
function define(list, pairs) {
  if (list.children.length !== 2 * pairs.length) {
    list.replaceChildren(...pairs.flatMap(() => [make('dt'), make('dd')]));
  }
  pairs.forEach(([term, value], at) => {
    set(list.children[2 * at], term);
    set(list.children[2 * at + 1], value, value === '0' ? 'zero' : '');
  });
}

// --- The API ---

class NeedsToken extends Error {}

async function ask(path, method = 'GET') {
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { method, headers, signal: AbortSignal.timeout(8000) });
  if (answer.status === 401) throw new NeedsToken();
  if (answer.status === 404) return null;
  // The health of a server that takes no calls comes with 503.
  if (!answer.headers.get('Content-Type')?.includes('json')) throw new Error((await answer.text()).trim());
  return answer.json();
}

// --- Curves ---

const charts = new Map();
const dark = matchMedia('(prefers-color-scheme: dark)');

function palette() {
  const bright = ['#6cb2f5', '#f0a35e', '#67c98f', '#c79bf2', '#ef7f8e', '#5cc5c9', '#d9c25a', '#a3adb8'];
  const deep = ['#2f6fb3', '#c8691c', '#2c8a57', '#7b4fb5', '#c0405a', '#1f8a92', '#8f7a10', '#6b747d'];
  return dark.matches ? { colours: bright, text: '#8e979f', grid: '#272d33' } : { colours: deep, text: '#646b72', grid: '#ecece7' };
}

function options(id, curves, width) {
  const { colours, text, grid } = palette();
  const axis = { stroke: text, font: '11px system-ui', grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  const isLog = id === 'response_ms';
  // Lines only at the powers of ten.
  const powers = (_, values) => values.map(value => Math.log10(value) % 1 ? null : value);
  const y = isLog
    ? { distr: 3, range: (_, low, high) => low == null ? [1, 10] : uPlot.rangeLog(low, high, 10, true) }
    : { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] };
  return {
    width, height: 150,
    cursor: { sync: { key: 'all' }, points: { size: 6 }, drag: { x: false, y: false } },
    legend: { markers: { width: 0, fill: (_, at) => colours[(at - 1) % colours.length] } },
    scales: { x: { range: (_, low, high) => [high - 600, high] }, y },
    axes: [
      { ...axis, size: 24, space: 60, values: (_, times) => times.map(time => new Date(time * 1000).toTimeString().slice(0, 5)) },
      {
        ...axis, size: 46, space: 28, ...(isLog && { filter: powers, grid: { ...axis.grid, filter: powers } }),
        values: (_, values) => values.map(value => value == null ? '' : number(value)),
      },
    ],
    series: [{}, ...curves.map(({ name }, at) => ({
      label: name,
      stroke: colours[at % colours.length],
      width: 1.4,
      dash: name.endsWith(' INVITE') || at >= colours.length ? [5, 3] : [],
      points: { show: false },
      // Without the pointer on a curve, the last value.
      value: (plot, value, at, index) => number(index == null ? plot.data[at].at(-1) : value),
    }))],
  };
}

function draw(id, times, curves) {
  const figure = $(id);
  const width = figure.clientWidth - 28;
  const shape = JSON.stringify([curves.map(curve => curve.name), width, dark.matches]);
  const data = [times, ...curves.map(curve => curve.values)];
  let chart = charts.get(id);
  if (chart?.shape === shape) return chart.plot?.setData(data);
  chart?.plot?.destroy();
  figure.querySelector('.none')?.remove();
  chart = { shape };
  if (curves.length === 0) figure.append(make('p', 'none', 'none in the last ten minutes'));
  else chart.plot = new uPlot(options(id, curves, width), data, figure);
  charts.set(id, chart);
  const canvas = figure.querySelector('canvas');
  canvas?.setAttribute('role', 'img');
  canvas?.setAttribute('aria-label', `${figure.firstChild.textContent}, the last ten minutes, by ${curves.map(c => c.name).join(', ')}`);
}

let history = null;
function showCurves() {
  if (history) for (const id of ['requests', 'response_ms', 'calls', 'refusals']) draw(id, history.times, history[id]);
}

// --- Members ---

const STATES = { up: 'good', down: 'bad', ejected: 'bad', off: 'off', removed: 'off' };
/** Earlier figures of each member, for rates and mean times. */
const past = new Map();

function recent(member, now) {
  const { assigned_total: assigned, invite_ms: invites, bye_ms: byes } = member;
  let list = past.get(member.address) ?? [];
  // Another process counts from 0.
  if (list.at(-1)?.now > now) list = [];
  list.push({ now, assigned, invites, byes });
  while (now - list[0].now > WINDOW) list.shift();
  past.set(member.address, list);
  const [first, last] = [list[0], list.at(-1)];
  const mean = of => {
    const count = last[of].count - first[of].count;
    return count > 0 ? (last[of].mean * last[of].count - (first[of].mean ?? 0) * first[of].count) / count : null;
  };
  const rate = now > first.now ? (assigned - first.assigned) / (now - first.now) : null;
  member.recent = { rate, invites: mean('invites'), byes: mean('byes') };
}

function limits(member) {
  const texts = [];
  if (member.limit != null) texts.push(`${digits(member.unanswered ?? 0)}/${digits(member.limit)} unanswered`);
  if (member.max_calls) texts.push(`${digits(member.max_calls)} calls`);
  if (member.max_rate) texts.push(`${digits(member.max_rate)}/s`);
  return texts.join(', ') || ['none', 'zero'];
}

function drainButton(member) {
  return cell => {
    const button = cell.firstChild ?? cell.appendChild(make('button'));
    const undo = member.draining;
    set(button, undo ? 'Undo drain' : 'Drain');
    button.setAttribute('aria-label', `${button.textContent} ${member.address}`);
    button.disabled = !member.member || member.drained_by_scaler;
    button.onclick = async () => {
      button.disabled = true;
      await act(() => ask(`api/${undo ? 'undrain' : 'drain'}?member=${encodeURIComponent(member.address)}`, 'POST'));
    };
  };
}

function label(member) {
  return cell => {
    if (!cell.firstChild) cell.append(make('span'), ' ', make('small'));
    set(cell.firstChild, member.name);
    set(cell.lastChild, member.name === member.address ? '' : member.address);
  };
}

const count = get => member => digits(get(member) ?? 0);
const worse = get => member => { const text = digits(get(member) ?? 0); return [text, text === '0' ? 'zero' : 'bad']; };
const COLUMNS = [
  ['Member', label],
  ['State', member => [member.state, `state ${STATES[member.state] ?? 'warn'}`], '', 'State, as docs/api.md explains it'],
  ['Calls', count(member => member.calls), 'number', 'Calls in progress'],
  ['New/s', member => decimal(member.recent.rate), 'number', `New requests a second in the last ${WINDOW} s`],
  ['Open', count(member => member.transactions), 'number rare', 'Transactions without a final response'],
  ['INVITE ms', member => decimal(member.recent.invites), 'number rare', `Mean time from INVITE to 2xx, ringing included, in the last ${WINDOW} s`],
  ['BYE ms', member => decimal(member.recent.byes), 'number', `Mean time from BYE to 2xx in the last ${WINDOW} s`],
  ['4xx', count(member => member.responses['4xx']), 'number rare', 'Responses since the start'],
  ['5xx', worse(member => member.responses['5xx']), 'number', 'Responses since the start'],
  ['6xx', worse(member => member.responses['6xx']), 'number rare', 'Responses since the start'],
  ['Silent', worse(member => member.ended.timed_out), 'number', 'Transactions without a final response in time'],
  ['Moved', worse(member => member.ended.moved), 'number rare', 'Unanswered requests that another member got too'],
  ['Limit', limits, 'number rare limit', 'Limit of overload control, and configured limits'],
  ...(mayDrain ? [['', drainButton, 'button']] : []),
];

function showPool(pool, members) {
  const id = `pool-${pool.name}`;
  let section = $(id);
  if (!section) {
    section = make('section');
    section.id = id;
    const [summary, table] = [make('div', 'summary'), make('table', 'members blocks')];
    summary.append(make('h2', '', pool.name), make('span'), make('span', 'soft'));
    table.setAttribute('aria-label', `Members of ${pool.name}`);
    section.append(summary, table, make('p', 'soft'));
    $('pools').append(section);
  }
  const [, standing, details] = section.firstChild.children;
  const all = pool.accepting === pool.members;
  set(standing, `${digits(pool.accepting)} of ${plural(pool.members, 'member')} accept calls`, all ? 'good' : pool.accepting ? 'warn' : 'bad');
  const atLimit = pool.at_limit ? `, ${digits(pool.at_limit)} at a limit` : '';
  const refused = Object.values(pool.refused).reduce((sum, some) => sum + some, 0);
  set(details, `${pool.orders}${atLimit}${refused ? `, ${digits(refused)} refused at the limits of all members` : ''}`);
  const isShort = pool.members > MANY && !$('search').value;
  const shown = members.filter(member => member.pools.includes(pool.name) && !(isShort && member.state === 'up'));
  fill(section.querySelector('table'), COLUMNS, shown.slice(0, ROWS), member => member.address);
  const hidden = isShort ? pool.members - shown.length : 0;
  set(section.lastChild, shown.length > ROWS ? `${digits(shown.length - ROWS)} more match`
    : hidden > 0 ? `${digits(hidden)} more are up` : '');
}

// --- The rest ---

/** Returns columns with these counts of the part of an item. The rare ones are left out on a phone. */
function counts(keys, rare, part) {
  return [...keys, ...rare].map(key => [key, item => digits(part(item)[key]), rare.includes(key) ? 'number rare' : 'number']);
}

function showHealth(health) {
  const [text, kind] = health.healthy
    ? health.degraded.length ? ['accepts new calls, with faults', 'warn'] : ['accepts new calls', 'good']
    : [health.last_resort ? 'new calls go to members of last resort' : 'accepts no new calls', 'bad'];
  set($('standing'), text, kind);
  set($('process'), `${location.host} · version ${health.version} · up ${span(health.uptime_seconds)}`);
  document.title = `${health.healthy ? '' : '✗ '}Sarabande ${location.host}`;
  const faults = [...health.reasons.map(text => [text, 'bad']), ...health.degraded.map(text => [text, '']),
    ...health.unsaved.slice(0, 20).map(text => [`not in the file: ${text}`, ''])];
  const list = $('faults');
  while (list.children.length > faults.length) list.lastChild.remove();
  faults.forEach(([text, className], at) => set(list.children[at] ?? list.appendChild(make('li')), text.length > 600 ? `${text.slice(0, 600)} …` : text, className));
  const refusals = Object.entries(health.refused).sort((one, other) => other[1] - one[1]);
  const now = Object.fromEntries((history?.refusals ?? []).map(curve => [curve.name, curve.values.at(-1)]));
  fill($('refused').querySelector('table'), [
    ['Status and reason', ([reason]) => reason],
    ['now, a second', ([reason]) => number(now[reason] ?? 0), 'number'],
    ['since the start', ([, total]) => digits(total), 'number'],
  ], refusals.length ? refusals : [['none', 0]], ([reason]) => reason);
  if (health.overload) showOverload(health.overload);
  const queues = health.pools.filter(pool => pool.queue);
  $('queues').hidden = queues.length === 0;
  fill($('queues').querySelector('table'), [
    ['Pool', pool => pool.name],
    ...counts(['waiting', 'refused', 'expired'], ['delivered', 'cancelled'], pool => pool.queue),
    ['mean wait ms', pool => number(pool.queue.mean_wait_ms), 'number'],
  ], queues, pool => pool.name);
}

function showFailures(failures) {
  $('failures').hidden = !failures?.failures.length;
  fill($('failures').querySelector('table'), [
    ['Time', ({ last, count }) => new Date(last).toTimeString().slice(0, 8) + (count > 1 ? ` ×${digits(count)}` : '')],
    ['Method', ({ method }) => method || 'connection'],
    ['From', ({ from }) => from, 'rare'],
    ['To', ({ to }) => to, 'wide'],
    ['Source', ({ source, several_sources: several }) => source + (several ? ' and others' : ''), 'rare'],
    ['Cause', failure => cell => ladder(cell, failure), 'wide'],
    ['Status', ({ status }) => [status ?? 'none', status >= 500 ? 'bad' : ''], 'number'],
  ], [...failures?.failures ?? []].reverse(), ({ id }) => id);
}

/** Shows the cause of a failure, and on a click each target that was tried. */
function ladder(cell, { cause, route, call_id: callId, tried }) {
  if (!cell.firstChild) cell.append(make('details'));
  const details = cell.firstChild;
  if (!details.firstChild) details.append(make('summary'), make('ol'));
  set(details.firstChild, cause);
  const lines = [...(callId ? [`Call-ID ${callId}, ${route ? `route ${route}` : 'no route'}`] : []),
    ...tried.map(({ target, name, seconds, result }) => `after ${number(seconds)} s ${name ? `${name} ` : ''}${target}: ${result}`)];
  if (details.lastChild.children.length !== lines.length) details.lastChild.replaceChildren(...lines.map(() => make('li')));
  lines.forEach((line, at) => set(details.lastChild.children[at], line));
}

function showOverload(overload) {
  define($('overload').querySelector('dl'), [
    [`New requests accepted now (${overload.law})`, percent(overload.acceptance)],
    ['Requests refused in the last seconds', percent(overload.recently_refused)],
    ['Requests refused since the start', digits(overload.refused + overload.priority_refused)],
    ['Expected wait of a message', `${number(overload.wait_seconds * 1000)} ms`],
    ['Messages that wait', digits(overload.waiting)],
    ...(overload.read_share < 1 ? [['Share of new requests that the kernel passes', percent(overload.read_share)]] : []),
  ]);
  $('neighbours').hidden = overload.neighbours.length === 0;
  fill($('neighbours').querySelector('table'), [
    ['Neighbour', neighbour => neighbour.address],
    ['State', ({ silent, limited }) => silent ? ['silent', 'state bad'] : limited ? ['limits us', 'state warn'] : ['no limit', 'state good']],
    ['Accepts', ({ rate, acceptance }) => rate == null ? percent(acceptance) : `${number(rate)}/s`, 'number'],
    ...counts(['refused'], ['offered', 'received'], neighbour => neighbour),
  ], overload.neighbours, neighbour => neighbour.address);
}

function showRegistrar(registrar) {
  $('registrar').hidden = !registrar;
  if (!registrar) return;
  const { registrations, log_ins: logIns, look_ups: lookUps } = registrar;
  const refused = Object.entries(registrations.refused_total).map(([status, total]) => `${digits(total)} × ${status}`);
  define($('registrar').querySelector('dl'), [
    ['Registrations accepted', digits(registrations.granted_total)],
    ['Registrations removed', digits(registrations.removed_total)],
    ['Registrations refused', refused.join(', ') || '0'],
    ['Wrong passwords', digits(logIns.refused_total + logIns.banned_total)],
    ['Requests for users with contacts', digits(lookUps.found_total)],
    ['Requests for users without contacts', digits(lookUps.not_found_total)],
    ['Requests that wait for a store', digits(registrar.waiting)],
  ]);
  fill($('registrar').querySelector('table'), [
    ['Store', store => `${store.name} (${store.kind})`],
    ['State', store => store.up ? ['up', 'state good'] : [`down: ${store.reason}`, 'state bad']],
    ['failed queries', store => digits(store.failed_total), 'number'],
  ], registrar.stores, store => store.name);
}

// --- Polling ---

let [round, timer] = [0, 0];
/** Parts that not every server has. */
const optional = new Map([['registrar', 'api/registrar'], ['failures', 'api/failures?limit=20']]);
const extra = {};

async function poll() {
  const health = await ask('api/health');
  const [isLarge, search] = [health.members > VERY_MANY, $('search').value];
  if (isLarge && round % 2) return showHealth(health);
  const wanted = search ? `&search=${encodeURIComponent(search)}` : isLarge ? '&problems=true' : '';
  const [members, curves] = await Promise.all([ask(`api/members?brief=true${wanted}`), round % 2 ? null : ask('api/history')]);
  for (const [part, path] of round % 2 ? [] : optional) {
    extra[part] = await ask(path);
    if (!extra[part]) optional.delete(part);
  }
  members.members.forEach(member => recent(member, health.uptime_seconds));
  history = curves ?? history;
  $('login').hidden = true;
  document.querySelector('main').hidden = false;
  showHealth(health);
  $('filter').hidden = !health.pools.some(pool => pool.members > MANY);
  health.pools.forEach(pool => showPool(pool, members.members));
  for (const section of [...$('pools').children]) {
    if (!health.pools.some(pool => `pool-${pool.name}` === section.id)) section.remove();
  }
  showCurves();
  showRegistrar(extra.registrar);
  showFailures(extra.failures);
}

/** Runs an action, shows its failure, and polls again a second later. */
async function act(action) {
  clearTimeout(timer);
  try {
    await action();
    await poll();
    round += 1;
    document.body.classList.remove('stale');
  } catch (error) {
    const needsToken = error instanceof NeedsToken;
    $('login').hidden = !needsToken;
    document.querySelector('main').hidden ||= needsToken;
    document.body.classList.add('stale');
    set($('standing'), needsToken ? 'the token is needed' : `no current figures: ${error.message}`, 'bad');
    if (needsToken) return;
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(act, 1000, () => {});
}

$('login').addEventListener('submit', event => {
  event.preventDefault();
  sessionStorage.setItem(KEY, $('token').value.trim());
  $('token').value = '';
  act(() => {});
});
$('search').addEventListener('input', () => act(() => { round = 0; }));
document.addEventListener('visibilitychange', () => document.hidden || act(() => {}));
addEventListener('resize', showCurves);
dark.addEventListener('change', showCurves);
act(() => {});
