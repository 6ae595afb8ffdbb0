
// Draws the section about clients and their topics for a filter, from the numbers in the page. Without a filter the
// section stays as it was made. The charts are the same as those of plots/stack.py and sections/moving.py.
const usage = (() => {
  const source = document.getElementById("moved");
  const data = source ? JSON.parse(source.textContent) : null;
  const SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const ROW = 9, LAYERS = 8, CLIENTS = 15, TOPICS = 10, PAIRS = 20, LEVELS = 6, TIMES = 4;
  const WIDTH = 1000, HEIGHT = 180, ABOVE = 10;
  const parts = ["usage-stack", "usage-heat", "usage-list", "usage-more", "usage-heat-title"].map((id) => document.getElementById(id));
  const [stack, heat, list, more, heatTitle] = parts;
  const original = parts.map((part) => (part ? [...part.childNodes] : []));
  let isOriginal = true;

  const count = (number) => Math.round(number).toLocaleString("en");
  const digits = (value) => (value >= 99.95 ? count(value) : String(Number(value.toPrecision(3))));
  const powerOf = (bytes) => Math.max(0, SIZES.findLastIndex((_, power) => bytes >= 1024 ** power));
  const size = (bytes) => `${digits(bytes / 1024 ** powerOf(bytes))} ${SIZES[powerOf(bytes)]}`;
  const moment = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  const nameOf = (names, place) => names[place] ?? "others";
  const named = (name, isOthers) => make(isOthers ? "em" : "bdi", isOthers ? {} : { class: "name" }, name);
  const measures = {
    bytes: [(row) => row.produced + row.fetched, size],
    records: [(row) => row.records, count],
    requests: [(row) => row.requests, count],
    errors: [(row) => row.errors, count],
  };

  // The rows that a filter leaves. `filter` tells whether a name of a kind matches, and the time in seconds.
  const rowsOf = (filter) => {
    const isIn = (kind, names) => [...names, undefined].map((name) => filter.matches(kind, name));
    const [clusters, clients, topics] = [isIn("cluster", data.clusters), isIn("client", data.clients), isIn("topic", data.topics)];
    const found = [];
    for (let at = 0; at < data.rows.length; at += ROW) {
      const [cluster, client, topic, step, produced, fetched, records, requests, errors] = data.rows.slice(at, at + ROW);
      const since = data.begin + step * data.step;
      const isWithin = since < filter.until && since + data.step > filter.since;
      if (isWithin && clusters[cluster] && clients[client] && topics[topic]) {
        found.push({ cluster, client, topic, step, produced, fetched, records, requests, errors });
      }
    }
    return found;
  };

  const add = (sums, key, value) => sums.set(key, (sums.get(key) ?? 0) + value);
  // The names with the largest sums, and behind them, as undefined, the others if there are any.
  const ranked = (rows, kind, names, value, most) => {
    const sums = new Map();
    for (const row of rows) add(sums, row[kind], value(row));
    const order = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
    const top = order.filter((place) => place < names.length).slice(0, most);
    return order.length > top.length ? [...top, undefined] : top;
  };
  const placeIn = (top, place) => (top.includes(place) ? top.indexOf(place) : top.length - 1);

  const scaleOf = (largest, isBytes) => {
    const thousands = largest < 10_000 ? 0 : Math.min(3, Math.floor(Math.log10(largest) / 3));
    const factor = isBytes ? 1024 ** powerOf(largest) : 1000 ** thousands;
    const unit = isBytes ? SIZES[powerOf(largest)] : ["", "thousand ", "million ", "billion "][thousands];
    const top = largest / factor || 1;
    const power = 10 ** Math.floor(Math.log10(top / 4));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= (top / 4) * (1 - 1e-9));
    const steps = Math.ceil(top / step - 1e-9);
    const ticks = [...Array(steps + 1).keys()].map((number) => [number / steps, digits(step * number)]);
    return { most: step * steps * factor, ticks, unit };
  };

  const drawStack = (rows, measure, filter) => {
    const [value, show] = measures[measure];
    const top = ranked(rows, "client", data.clients, value, LAYERS);
    const bounds = [...Array(data.steps).keys()].map((step) =>
      [step, step + 1].map((each) => Math.min(data.to, Math.max(data.from, data.begin + each * data.step))));
    const layers = top.map(() => Array(data.steps).fill(0));
    const wholes = top.map(() => 0);
    for (const row of rows) {
      const layer = placeIn(top, row.client);
      wholes[layer] += value(row);
      layers[layer][row.step] += value(row);
    }
    const sums = bounds.map((_, step) => layers.reduce((sum, layer) => sum + layer[step], 0));
    const scale = scaleOf(Math.max(0, ...sums), measure === "bytes");
    const unit = `${scale.unit}${measure === "bytes" ? "" : measure}`;
    const kinds = top.map((place, layer) => (place === undefined ? "others" : `fill-${layer}`));
    const names = top.map((place) => nameOf(data.clients, place));
    const across = (seconds) => +(((seconds - data.from) / (data.to - data.from)) * WIDTH).toFixed(2);
    const up = (number) => +(HEIGHT * (1 - number / scale.most)).toFixed(2);
    const below = Array(data.steps).fill(0);
    const paths = layers.map((layer, number) => {
      const bars = layer.map((each, step) => {
        const bottom = up(below[step]);
        below[step] += each;
        const [left, right] = bounds[step].map(across);
        return each ? `M${left} ${bottom}H${right}V${up(below[step])}H${left}Z` : "";
      });
      return make("path", { d: bars.join(""), class: `fill ${kinds[number]}` });
    });
    const [field, axis] = [stack.querySelector(".field"), stack.querySelector(".axis")];
    const grid = scale.ticks.map(([at]) => {
      const y = ABOVE + HEIGHT * (1 - at);
      return make("line", { x1: 0, x2: "100%", y1: y, y2: y, class: at ? "grid" : "base" });
    });
    field.querySelectorAll(":scope > line:not(.time)").forEach((line) => line.remove());
    field.prepend(...grid);
    field.setAttribute("aria-label", `${measure} by client: ${names.map((name, layer) => `${name} ${show(wholes[layer])}`).join("; ")}`);
    field.querySelector("svg").replaceChildren(...paths);
    axis.replaceChildren(...scale.ticks.map(([at, label]) =>
      make("text", { x: 48, y: ABOVE + HEIGHT * (1 - at) + 4, "text-anchor": "end" }, label)));
    const title = stack.querySelector("strong");
    title.textContent = title.textContent.replace(/^\w+/, measure[0].toUpperCase() + measure.slice(1));
    stack.querySelector("figcaption .unit").textContent = `${unit}, times in UTC`;
    stack.querySelector(".legend").replaceChildren(...names.map((name, layer) => {
      const swatch = make("svg", { width: 22, height: 12, "aria-hidden": true },
        make("rect", { y: 1, width: 22, height: 10, class: kinds[layer] }));
      return make("li", {}, swatch, make("span", {}, name), make("span", { class: "unit" }, show(wholes[layer])));
    }));
    const table = stack.querySelector("table.numbers");
    table.tHead.rows[0].replaceChildren(...["from (UTC)", ...names].map((name) => make("th", { scope: "col" }, name)));
    const seen = bounds.map((each, step) => [...each, step]).filter(([since, until]) => since < filter.until && until > filter.since);
    stack.querySelector("summary").textContent = `The ${seen.length} points as numbers`;
    table.tBodies[0].replaceChildren(...seen.map(([since, until, step]) => {
      const place = ((since + until) / 2 - data.from) / (data.to - data.from);
      const cells = [moment(since), ...layers.map((layer) => show(layer[step]))];
      return make("tr", { "data-place": place.toFixed(4) }, ...cells.map((cell) => make("td", {}, cell)));
    }));
  };

  const drawHeat = (rows, measure) => {
    const [value, show] = measures[measure];
    const clients = ranked(rows, "client", data.clients, value, CLIENTS);
    const topics = ranked(rows, "topic", data.topics, value, TOPICS);
    const cells = new Map();
    for (const row of rows) {
      const key = placeIn(clients, row.client) * topics.length + placeIn(topics, row.topic);
      const cell = cells.get(key) ?? { produced: 0, fetched: 0, records: 0, requests: 0, errors: 0 };
      for (const name of Object.keys(cell)) cell[name] += row[name];
      cells.set(key, cell);
    }
    const largest = Math.max(1, ...[...cells.values()].map(value));
    const level = (number) => (number ? Math.max(1, LEVELS - Math.floor(Math.log(largest / number) / Math.log(TIMES))) : 0);
    const drawn = (cell, names) => {
      if (!cell) return make("td");
      const told = `${names}: produced ${size(cell.produced)}, fetched ${size(cell.fetched)}, ${count(cell.records)} records`;
      return make("td", { class: `heat-${level(value(cell))}`, title: told }, show(value(cell)));
    };
    const head = (names, place, scope) => make("th", { scope }, named(nameOf(names, place), place === undefined));
    heatTitle.textContent = heatTitle.textContent.replace(/^\w+/, measure[0].toUpperCase() + measure.slice(1));
    heat.tHead.rows[0].replaceChildren(make("td"), ...topics.map((topic) => head(data.topics, topic, "col")));
    heat.tBodies[0].replaceChildren(...clients.map((client, y) => make("tr", {}, head(data.clients, client, "row"),
      ...topics.map((topic, x) => drawn(cells.get(y * topics.length + x),
        `${nameOf(data.clients, client)}, ${nameOf(data.topics, topic)}`)))));
  };

  const drawList = (rows) => {
    const pairs = new Map();
    for (const row of rows) {
      const key = `${row.cluster} ${row.client} ${row.topic}`;
      const pair = pairs.get(key) ?? { ...row, produced: 0, fetched: 0, records: 0, errors: 0, steps: new Map() };
      for (const name of ["produced", "fetched", "records", "errors"]) pair[name] += row[name];
      add(pair.steps, row.step, row.produced + row.fetched);
      pairs.set(key, pair);
    }
    const moved = (pair) => pair.produced + pair.fetched;
    const order = [...pairs.values()].sort((a, b) => moved(b) - moved(a));
    const heads = [...list.tHead.rows[0].cells].map((cell) => cell.textContent);
    for (const cell of list.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
    list.tBodies[0].replaceChildren(...order.slice(0, PAIRS).map((pair) => {
      const steps = [...pair.steps.keys()];
      const busiest = steps.reduce((best, step) => (pair.steps.get(step) > pair.steps.get(best) ? step : best));
      const cluster = data.clusters.length > 1 ? [make("span", { class: "cluster" }, nameOf(data.clusters, pair.cluster))] : [];
      const bar = make("svg", { class: "bar", width: "100%", height: 8, "aria-hidden": true },
        make("rect", { width: `${(moved(pair) / Math.max(1, moved(order[0]))) * 100}%`, height: 8, rx: 1, class: "fill fill-0" }));
      const numbers = [[size, pair.produced], [size, pair.fetched], [count, pair.records], [count, pair.errors]];
      const times = [Math.min(...steps), Math.max(...steps), busiest];
      return make("tr", {},
        make("th", { scope: "row", "data-value": nameOf(data.clients, pair.client) },
          named(nameOf(data.clients, pair.client), pair.client >= data.clients.length), ...cluster, bar),
        make("td", { "data-head": heads[1] }, named(nameOf(data.topics, pair.topic), pair.topic >= data.topics.length)),
        ...numbers.map(([show, number], at) =>
          make("td", { class: "number", "data-value": number, "data-head": heads[2 + at] }, show(number))),
        ...times.map((step, at) => make("td", { class: "whole", "data-head": heads[6 + at] },
          moment(Math.max(data.from, data.begin + step * data.step)))));
    }));
    if (more) more.textContent = order.length > PAIRS ? `${count(order.length - PAIRS)} more pairs are not listed.` : "";
    return order.length;
  };

  const restore = () => parts.forEach((part, number) => part?.replaceChildren(...original[number]));

  // Draws what the filter leaves, and returns the number of pairs of client and topic; null if there is no filter.
  const show = (filter, measure) => {
    if (!data || !stack) return null;
    if (!isOriginal) restore();
    isOriginal = !filter.isActive && measure === "bytes";
    if (isOriginal) return null;
    // What is drawn again must not change the original.
    parts.forEach((part, number) => part?.replaceChildren(...original[number].map((node) => node.cloneNode(true))));
    const rows = rowsOf(filter);
    drawStack(rows, measure, filter);
    drawHeat(rows, measure);
    return drawList(rows);
  };
  return { show, moment, names: data ?? {}, isDrawn: Boolean(data && stack), step: data?.step ?? 0, folded: data?.folded ?? {} };
})();
