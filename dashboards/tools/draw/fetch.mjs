// Asks Prometheus for what the panels show: fetch.mjs DASHBOARD.json PROMETHEUS FROM TO PANEL... > data.json (times in seconds).
import { readFileSync } from 'node:fs';

const [file, prometheus, from, to, ...ids] = process.argv.slice(2);
const dashboard = JSON.parse(readFileSync(file, 'utf8'));
// About as many points as a panel has pixels; never less than two scrapes of 15 s in a range.
const step = Math.max(15, Math.ceil((to - from) / 400));
const filledIn = (expr) =>
  expr.replaceAll('$__rate_interval', `${Math.max(60, 4 * step)}s`).replaceAll('$__range', `${to - from}s`)
    .replaceAll('$owner', process.env.OWNER ?? '.*').replaceAll(/\$(cluster|instance|gpu|node)\b/g, '.*');

async function series({ expr }) {
  const query = new URLSearchParams({ query: filledIn(expr), start: from, end: to, step });
  const answer = await (await fetch(`${prometheus}/api/v1/query_range?${query}`)).json();
  if (answer.status !== 'success') throw new Error(`${answer.error}: ${expr}`);
  return answer.data.result.map(({ metric, values }) => ({ metric, values: withGaps(values) }));
}

/** As Grafana does: a missing point, or one that is not a number, is a null, so that the line breaks. */
function withGaps(values) {
  const at = new Map(values.filter(([, value]) => value !== 'NaN'));
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, n) => Number(from) + n * step).map((time) => [time, at.get(time) ?? null]);
}

const panels = ids.map((id) => {
  const panel = dashboard.panels.find((panel) => panel.id === Number(id));
  if (!panel) throw new Error(`${file} has no panel ${id}`);
  return panel;
});
for (const target of panels.flatMap((panel) => panel.targets)) target.series = await series(target);
console.log(JSON.stringify({ dashboard: dashboard.title, panels, from: Number(from), to: Number(to) }));
