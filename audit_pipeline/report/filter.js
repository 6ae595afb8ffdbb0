
// Filters the page by cluster, client, topic and time. The filter is in the address of the page, behind the section:
// #storms&client=checkout-7&from=2026-11-22T15:30
{
  const form = document.getElementById("filter");
  const NAMES = ["cluster", "client", "topic", "from", "to", "measure"];
  const DAY_S = 86_400;
  const TICKS_S = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY_S, 2 * DAY_S, 7 * DAY_S];
  const TICKS = 5;

  const fields = () => Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
  // A day as the end is included, as in the commands. NaN for what is not a day or time.
  const seconds = (text, daysMore) => {
    const [, day, time] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d))?$/.exec(text.trim()) ?? [];
    return Date.parse(`${day}T${time ?? "00:00"}Z`) / 1000 + (time ? 0 : daysMore * DAY_S);
  };
  const filterOf = (found) => {
    const since = found.from ? seconds(found.from, 0) : -Infinity, until = found.to ? seconds(found.to, 1) : Infinity;
    const active = ["cluster", "client", "topic"].filter((kind) => found[kind]);
    if (found.from || found.to) active.push("time");
    const matches = (kind, name) => {
      const wanted = found[kind];
      if (!wanted) return true;
      return name !== undefined && (wanted.endsWith("*") ? name.startsWith(wanted.slice(0, -1)) : name === wanted);
    };
    return { since, until, active, matches, isActive: active.length > 0 };
  };

  const isIn = (facets, follows, filter) => follows.every((kind) =>
    kind === "time" ? facets.since < filter.until && facets.until >= filter.since : filter.matches(kind, facets[kind]));

  // Shows a part of the time of a plot. The marks of the whole time are kept for later.
  const zoom = (figure, filter) => {
    const field = figure.querySelector(".field"), inner = field.querySelector("svg");
    const whole = [+figure.dataset.since, +figure.dataset.until];
    const [since, until] = [Math.max(whole[0], filter.since), Math.min(whole[1], filter.until)];
    const shares = [since, until].map((each) => (each - whole[0]) / (whole[1] - whole[0]));
    const isZoomed = since < until && (shares[0] > 0 || shares[1] < 1);
    const [begin, end] = isZoomed ? shares : [0, 1];
    figure.times ??= [...field.querySelectorAll(":scope > .time")];
    figure.zoomed = [begin, end];
    inner.setAttribute("viewBox", `${begin * 1000} 0 ${(end - begin) * 1000} 180`);
    inner.setAttribute("overflow", isZoomed ? "hidden" : "visible");
    field.querySelectorAll(":scope > .time").forEach((mark) => mark.remove());
    field.append(...(isZoomed ? timesOf(since, until) : figure.times));
  };
  const timesOf = (since, until) => {
    const step = TICKS_S.find((each) => (until - since) / each <= TICKS) ?? Math.ceil((until - since) / TICKS / DAY_S) * DAY_S;
    const made = [];
    for (let at = Math.ceil(since / step) * step; at < until; at += step) {
      const share = (at - since) / (until - since), x = `${(share * 100).toFixed(2)}%`;
      const anchor = share < 0.08 ? "start" : share > 0.92 ? "end" : "middle";
      const label = at % DAY_S ? usage.moment(at).slice(11) : usage.moment(at).slice(5, 10);
      made.push(make("line", { x1: x, x2: x, y1: 190, y2: 195, class: "base time" }),
        make("text", { x, y: 210, "text-anchor": anchor, class: made.length % 4 ? "minor time" : "time" }, label));
    }
    return made;
  };

  const followed = (part) => {
    const found = new Set();
    for (let each = part; each; each = each.parentElement.closest("[data-follows]")) {
      (each.dataset.follows ?? "").split(" ").forEach((kind) => found.add(kind));
    }
    return found;
  };
  const tell = (section, filter) => {
    section.querySelector(".unfiltered")?.remove();
    const parts = [...section.querySelectorAll("table:not(.numbers), figure")].map(followed);
    const lacks = filter.active.filter((kind) => parts.some((part) => !part.has(kind)));
    const rows = [...section.querySelectorAll("tbody > tr")].filter((row) => !row.closest(".numbers"));
    const isEmpty = filter.isActive && rows.length > 0 && rows.every((row) => row.closest("[data-out]"));
    const sentences = lacks.map((kind) =>
      parts.some((part) => part.has(kind)) ? `Only a part of this section is filtered by ${kind}.` : `Not filtered by ${kind}.`);
    const hasZoomed = filter.active.includes("time") && section.id !== "usage" && section.querySelector("figure[data-since]");
    if (hasZoomed) sentences.push("Numbers beside names of lines are of the whole time.");
    if (isEmpty) sentences.push("No row of this section matches the filter.");
    if (sentences.length) section.querySelector("h2").after(make("p", { class: "unfiltered" }, sentences.join(" ")));
  };

  const summary = (found, filter, pairs) => {
    if (!filter.isActive) return ["Nothing is filtered."];
    const names = ["cluster", "client", "topic"].filter((kind) => found[kind]);
    const parts = names.flatMap((kind, number) => [`${number ? ", " : ""}${kind} `, make("bdi", {}, found[kind])]);
    const from = found.from ? ` from ${found.from.replace("T", " ")}` : "", to = found.to ? ` to ${found.to.replace("T", " ")}` : "";
    const time = from || to ? `${names.length ? ", " : ""}time${from}${to} UTC` : "";
    const told = pairs === null ? "" : ` ${pairs} ${pairs === 1 ? "pair" : "pairs"} of client and topic.`;
    const steps = time ? ` Clients and topics are counted in whole steps of ${usage.step / 60} minutes.` : "";
    const hidden = Object.entries(usage.folded).filter(([, number]) => number).map(([kind, number]) => `${number} small ${kind}`);
    const folded = hidden.length ? ` ${hidden.join(" and ")} are not among them: they are only counted together.` : "";
    return ["Filtered by ", ...parts, `${time}.${told}${steps}${folded}`];
  };

  // Tiles and answers have numbers that the page cannot compute for a part of the log.
  const tellWhole = (filter) => {
    for (const part of document.querySelectorAll("main > .tiles, main > .answers")) {
      if (part.previousElementSibling?.matches(".unfiltered")) part.previousElementSibling.remove();
      const what = part.matches(".tiles") ? "These numbers" : "These answers";
      if (filter.isActive) part.before(make("p", { class: "unfiltered" }, `${what} are not filtered: ${form.dataset.whole}.`));
    }
  };

  const apply = () => {
    const found = fields(), filter = filterOf(found), told = form.querySelector("output");
    if (!(filter.since < filter.until)) {
      const isTime = filter.since >= filter.until;
      told.textContent = isTime ? "From is not before To: the time is empty." : "A time is written like 2026-11-22T15:30, or 2026-11-22 for a day.";
      return;
    }
    const pairs = usage.show(filter, found.measure ?? "bytes");
    for (const each of document.querySelectorAll("[data-follows]")) {
      const follows = each.dataset.follows.split(" ");
      if (each.matches("figure")) zoom(each, filter);
      else if (!usage.isDrawn || !each.id.startsWith("usage-")) {
        const parts = each.tBodies ? [...each.tBodies[0].rows] : [each];
        for (const part of parts) part.toggleAttribute("data-out", filter.isActive && !isIn(part.dataset, follows, filter));
        each.closest(".scroll")?.toggleAttribute("data-out", parts.length > 0 && parts.every((part) => part.hasAttribute("data-out")));
      }
    }
    tellWhole(filter);
    document.querySelectorAll("main > section[id]:not(.answers)").forEach((section) => tell(section, filter));
    document.querySelectorAll("form.filter").forEach((each) => each.dispatchEvent(new Event("input")));
    told.replaceChildren(...summary(found, filter, pairs));
  };

  const write = (anchor) => {
    const hash = [anchor, String(new URLSearchParams(fields()))].filter((part) => part).join("&");
    history.replaceState(null, "", hash ? `#${hash}` : location.href.split("#")[0]);
  };
  const parts = () => {
    const [first, ...rest] = location.hash.slice(1).split("&");
    return first.includes("=") ? ["", [first, ...rest].join("&")] : [first, rest.join("&")];
  };
  const read = () => {
    const [anchor, query] = parts(), wanted = new URLSearchParams(query);
    const cluster = form.elements.cluster, named = wanted.get("cluster");
    // A cluster that the page does not have leaves nothing, instead of everything.
    if (cluster && named && ![...cluster.options].some((each) => each.value === named)) cluster.append(new Option(named));
    for (const name of NAMES) if (form.elements[name]) form.elements[name].value = wanted.get(name) ?? "";
    apply();
    if (query) document.getElementById(anchor)?.scrollIntoView();
  };

  const change = () => { apply(); write(parts()[0]); };
  // Dragging the mouse across a plot over time selects its time.
  let begun = null;
  const timeAt = (plot, x) => {
    const figure = plot.parentElement, field = plot.querySelector(".field").getBoundingClientRect();
    const [begin, end] = figure.zoomed ?? [0, 1];
    const share = begin + Math.min(1, Math.max(0, (x - field.left) / field.width)) * (end - begin);
    return +figure.dataset.since + share * (figure.dataset.until - figure.dataset.since);
  };
  const select = (times) => {
    const [since, until] = [Math.floor(Math.min(...times) / 60) * 60, Math.ceil(Math.max(...times) / 60) * 60];
    form.elements.from.value = usage.moment(since).replace(" ", "T");
    form.elements.to.value = usage.moment(until).replace(" ", "T");
    change();
  };

  if (form) {
    form.hidden = false;
    for (const known of form.querySelectorAll("datalist")) {
      known.append(...(usage.names[known.id] ?? []).map((value) => make("option", { value })));
    }
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", change);
    form.addEventListener("reset", () => setTimeout(change));
    document.addEventListener("pointerdown", (event) => {
      const plot = event.pointerType === "mouse" ? event.target.closest("figure[data-since] .plot") : null;
      begun = plot && { plot, x: event.clientX };
    });
    document.addEventListener("pointerup", (event) => {
      if (begun && Math.abs(event.clientX - begun.x) > 8) {
        select([begun.x, event.clientX].map((x) => timeAt(begun.plot, x)));
      }
      begun = null;
    });
    // A link to a section keeps the filter; an address with a filter brings its own.
    addEventListener("hashchange", () => { if (parts()[1]) read(); else write(parts()[0]); });
    read();
  }
}
