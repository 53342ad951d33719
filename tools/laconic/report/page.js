// Draws the data of the page: a table, chips that show and hide runs in all charts, and the charts. Names come from users:
// they enter the page as text only (textContent), and Plotly's labels escaped.
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const runs = data.runs;

  const palettes = {
    light: ['#2563eb', '#dc2626', '#059669', '#d97706', '#7c3aed', '#0891b2', '#db2777', '#65a30d', '#57606f', '#92400e'],
    dark: ['#6ea8ff', '#ff7a7a', '#34d399', '#fbbf24', '#b197fc', '#22d3ee', '#f783c4', '#a3e635', '#c3cad5', '#e39a6b'],
  };
  const dashes = ['solid', 'dash', 'dot'];
  const borders = ['solid', 'dashed', 'dotted'];

  // --- small tools --------------------------------------------------------------------------------------------------

  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const known = (value) => value !== null && value !== undefined;
  const escaped = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
  const plural = (count, word) => `${count} ${word}${count === 1 ? '' : 's'}`;
  const digits = (value, count = 3) => String(Number(value.toPrecision(count)));

  const scaled = (value, steps) => {
    const step = steps.find(([least]) => Math.abs(value) >= least) || steps[steps.length - 1];
    return `${digits(value / (step[2] || step[0]))} ${step[1]}`;
  };
  const bytesText = (value) =>
    value === 0 ? '0' : scaled(value, [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [0, 'B', 1]]);
  const secondsText = (value) => value === 0 ? '0' : scaled(value, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [0, 'ns', 1e-9]]);
  const percentText = (value) => `${(100 * value).toFixed(2)} %`;

  // --- theme: the system's, until the switch is used ----------------------------------------------------------------

  const system = window.matchMedia('(prefers-color-scheme: dark)');
  const remembered = () => { try { return localStorage.getItem('laconic-theme'); } catch { return null; } };
  const theme = () => document.documentElement.dataset.theme;
  const colour = (index) => palettes[theme()][index % palettes.light.length];
  const dashOf = (index) => Math.floor(index / palettes.light.length) % dashes.length;

  function setTheme(name) {
    document.documentElement.dataset.theme = name;
    document.getElementById('theme').textContent = name === 'dark' ? '☀ Light' : '☾ Dark';
    paintSwatches();
    for (const chart of charts) chart.draw();
  }

  function paintSwatches() {
    for (const mark of document.querySelectorAll('.swatch')) mark.style.borderTopColor = colour(mark.dataset.run);
  }

  const swatch = (index) => {
    const mark = element('span', { className: 'swatch' });
    mark.dataset.run = index;
    mark.style.borderTopStyle = borders[dashOf(index)];
    return mark;
  };

  // --- the table ----------------------------------------------------------------------------------------------------

  const columns = [
    ['accuracy', 'Accuracy', percentText],
    ['perplexity', 'Perplexity', (value) => digits(value, 4)],
    ['loss', 'Loss', (value) => digits(value, 4)],
    ['distance', 'Distance', (value) => digits(value, 4)],
    ['payload_bytes_per_step', 'Payload / step', bytesText],
    ['sent_bytes_per_step', 'Sent / step', bytesText],
    ['total_sent_bytes', 'Sent in all', bytesText],
    ['step_seconds', 'Step time', secondsText],
    ['steps', 'Steps', String],
    ['rounds', 'Rounds', (value) => value === 0 ? '–' : String(value)],
    ['mean_bits', 'Mean bits', (value) => value === 0 ? '–' : digits(value)],
  ].filter(([key, , text]) => runs.some((run) => known(run.end[key]) && text(run.end[key]) !== '–'));

  const order = { key: null, descending: false };

  function drawTable() {
    const heading = element('tr', {}, element('th', { textContent: 'Run', scope: 'col' }));
    for (const [key, title] of columns) {
      const cell = element('th', { scope: 'col' });
      if (order.key === key) cell.setAttribute('aria-sort', order.descending ? 'descending' : 'ascending');
      cell.append(element('button', { type: 'button', textContent: title, onclick: () => sortBy(key) }));
      heading.append(cell);
    }
    const rows = runs.map((run, index) => ({ run, index }));
    const value = (row) => known(row.run.end[order.key]) ? row.run.end[order.key] : Infinity;
    if (order.key) rows.sort((a, b) => (order.descending ? -1 : 1) * (value(a) - value(b)));
    const body = element('tbody');
    for (const { run, index } of rows) {
      const line = element('tr', {}, element('th', { scope: 'row', title: run.folder }, swatch(index), run.label));
      for (const [key, , text] of columns) {
        line.append(element('td', { textContent: known(run.end[key]) ? text(run.end[key]) : '–' }));
      }
      body.append(line);
    }
    document.getElementById('summary').replaceChildren(element('thead', {}, heading), body);
  }

  function sortBy(key) {
    order.descending = order.key === key ? !order.descending : key === 'accuracy';
    order.key = key;
    drawTable();
    paintSwatches();
  }

  // --- the charts ---------------------------------------------------------------------------------------------------

  const visible = runs.map(() => true);
  const charts = [];

  const longest = runs.flatMap((run) => run.evaluations.seconds).reduce((most, value) => Math.max(most, value), 0);
  const clock = longest < 300 ? { unit: 1, suffix: 's', format: '~s' }
    : longest < 7200 ? { unit: 60, suffix: ' min', format: '~g' } : { unit: 3600, suffix: ' h', format: '~g' };

  const axes = {
    step: { title: 'steps', words: 'steps', unit: 1, format: '~s', suffix: '', hover: 'step %{x:,}' },
    bytes: { title: 'bytes sent by one rank', words: 'bytes', unit: 1, format: '~s', suffix: 'B', hover: '%{x:.4s}B sent' },
    seconds: { title: 'training time', words: 'time', hover: `%{x:.4~g}${clock.suffix === 's' ? ' s' : clock.suffix}`, ...clock },
  };

  // What there may be: where it lies, which values count as none, how it is written.
  const measures = {
    accuracy: { title: 'Accuracy', table: 'evaluations', format: '.0%', hover: '%{y:.2%}' },
    perplexity: { title: 'Perplexity', table: 'evaluations', format: '~g', hover: 'perplexity %{y:.4~g}', wide: 30 },
    loss: { title: 'Loss', table: 'evaluations', format: '~g', hover: 'loss %{y:.5~g}', wide: 30 },
    distance: { title: 'Distance', table: 'evaluations', format: '~g', hover: 'distance %{y:.5~g}', wide: 30 },
    bits: { title: 'Bits a value', table: 'steps', format: '~g', hover: '%{y} bits', shape: 'hv', dropZero: true },
    residual_norm: { title: 'Residual norm', table: 'evaluations', format: '~g', hover: 'norm %{y:.5~g}', wide: 100, dropZero: true },
    rounds: { title: 'Rounds', table: 'steps', format: '~s', hover: '%{y} rounds', shape: 'hv', dropZero: true },
  };
  const groups = [
    ['Accuracy', ['accuracy'], ['step', 'bytes', 'seconds']],
    ['Perplexity', ['perplexity'], ['step', 'bytes', 'seconds']],
    ['Loss', ['loss'], ['step', 'bytes', 'seconds']],
    ['Distance from the optimum', ['distance'], ['step', 'bytes', 'seconds']],
    ['Inside the methods', ['bits', 'residual_norm', 'rounds'], ['step']],
  ];

  const shows = (run, measure) => {
    const values = run[measure.table][measure.key];
    return Boolean(values) && values.some((value) => known(value) && !(measure.dropZero && value === 0));
  };

  /** Largest over smallest of the values that a logarithm can show; 0 if one cannot be shown. */
  const spread = (lists) => {
    let least = Infinity, most = 0;
    for (const value of lists.flat()) {
      if (!known(value)) continue;
      if (value <= 0) return 0;
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
    return most / least;
  };

  /** A logarithmic axis over decades has a mark at each of them, else Plotly's own choice would crowd it. */
  const scale = (logarithmic, lists) => {
    const decades = Math.log10(spread(lists.map((list) => list.filter((value) => value > 0))));
    return !logarithmic ? { type: 'linear', nticks: 7 }
      : decades > 1.5 ? { type: 'log', dtick: Math.ceil(decades / 7) } : { type: 'log', nticks: 4 };
  };

  class Chart {
    constructor(measure, axisName) {
      this.measure = measure;
      this.axisName = axisName;
      this.axis = axes[axisName];
      this.shown = runs.map((run, index) => ({ run, index })).filter(({ run }) => shows(run, measure));
      this.log = {
        x: axisName === 'bytes' && spread(this.values(axisName).map((list) => list.slice(-1))) > 8,
        y: Boolean(measure.wide) && spread(this.values(measure.key)) > measure.wide,
      };
      this.title = `${measure.title} against ${this.axis.words}`;
      this.plot = element('div', { className: 'plot' });
      this.figure = element('figure', { className: 'card', id: `${measure.key}-${axisName}` },
        element('figcaption', {}, element('span', { textContent: this.title }), this.logButton('x'), ...(measure.wide ? [this.logButton('y')] : []),
          element('button', { type: 'button', className: 'csv', textContent: 'CSV', title: 'Download the points of this chart', onclick: () => this.download() })),
        this.plot);
    }

    /** A column of each run. */
    values(name) { return this.shown.map(({ run }) => run[this.measure.table][name]); }

    logButton(name) {
      const button = element('button', { type: 'button', textContent: `log ${name}`, title: `Logarithmic ${name} axis` });
      button.setAttribute('aria-pressed', this.log[name]);
      button.onclick = () => {
        this.log[name] = !this.log[name];
        button.setAttribute('aria-pressed', this.log[name]);
        this.draw();
      };
      return button;
    }

    traces() {
      return this.shown.map(({ run, index }) => {
        const table = run[this.measure.table];
        const name = escaped(run.label);
        return {
          name, type: 'scatter', mode: table.step.length > 40 ? 'lines' : 'lines+markers', visible: visible[index],
          x: table[this.axisName].map((value) => value / this.axis.unit), y: table[this.measure.key],
          line: { color: colour(index), width: 1.8, dash: dashes[dashOf(index)], shape: this.measure.shape || 'linear' },
          marker: { color: colour(index), size: 5 },
          hovertemplate: `<b>${name}</b><br>${this.measure.hover}<br>${this.axis.hover}<extra></extra>`,
        };
      });
    }

    layout() {
      const style = getComputedStyle(document.documentElement);
      const variable = (name) => style.getPropertyValue(name).trim();
      const line = { gridcolor: variable('--grid'), linecolor: variable('--line'), zeroline: false, automargin: true };
      return {
        autosize: true, showlegend: false, margin: { l: 46, r: 14, t: 10, b: 40 },
        paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
        font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: variable('--quiet') },
        hoverlabel: { bgcolor: variable('--card'), bordercolor: variable('--line'), font: { color: variable('--text') } },
        hovermode: 'closest',
        dragmode: window.matchMedia('(pointer: coarse)').matches ? false : 'zoom',  // a finger scrolls the page
        xaxis: {
          ...line, tickformat: this.axis.format, ticksuffix: this.axis.suffix, ...scale(this.log.x, this.values(this.axisName)),
          title: { text: this.axis.title },
        },
        yaxis: { ...line, tickformat: this.measure.format, ...scale(this.log.y, this.values(this.measure.key)) },
      };
    }

    draw() {
      Plotly.react(this.plot, this.traces(), this.layout(),
        { responsive: true, displayModeBar: false, doubleClick: 'reset+autosize' });
    }

    /** A line a point, figures as the run recorded them; all runs of the chart, hidden ones too. */
    csv() {
      const quoted = (text) => /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
      const lines = [['run', this.axisName, this.measure.key].join(',')];
      for (const { run } of this.shown) {
        const table = run[this.measure.table];
        table[this.axisName].forEach((x, row) => {
          const y = table[this.measure.key][row];
          if (known(y)) lines.push([quoted(run.label), x, y].join(','));
        });
      }
      return lines.join('\r\n') + '\r\n';
    }

    download() {
      const address = URL.createObjectURL(new Blob([this.csv()], { type: 'text/csv' }));
      element('a', { href: address, download: `${this.figure.id}.csv` }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    }
  }

  function makeCharts() {
    for (const [title, keys, axisNames] of groups) {
      const row = element('div', { className: 'row' });
      for (const key of keys) {
        const measure = { key, ...measures[key] };
        if (!runs.some((run) => shows(run, measure))) continue;
        for (const axisName of axisNames) {
          charts.push(new Chart(measure, axisName));
          row.append(charts[charts.length - 1].figure);
        }
      }
      if (row.childElementCount) document.getElementById('charts').append(element('section', {}, element('h2', { textContent: title }), row));
    }
  }

  // --- chips: which runs are shown ----------------------------------------------------------------------------------

  function show(wanted) {
    wanted.forEach((on, index) => { visible[index] = on; });
    document.querySelectorAll('.chips .run').forEach((chip, index) => chip.setAttribute('aria-pressed', visible[index]));
    for (const chart of charts) chart.draw();
  }

  function makeChips() {
    const bar = document.getElementById('chips');
    if (runs.length < 2) { bar.remove(); return; }
    bar.append(element('button', { type: 'button', textContent: 'All', onclick: () => show(runs.map(() => true)) }));
    bar.append(element('button', { type: 'button', textContent: 'None', onclick: () => show(runs.map(() => false)) }));
    runs.forEach((run, index) => {
      const chip = element('button', { type: 'button', className: 'run', title: `${run.folder}: click shows or hides, double click shows it alone` }, swatch(index), run.label);
      chip.setAttribute('aria-pressed', 'true');
      chip.onclick = () => show(visible.map((on, each) => each === index ? !on : on));
      chip.ondblclick = () => show(visible.map((on, each) => each === index));
      bar.append(chip);
    });
  }

  // --- words --------------------------------------------------------------------------------------------------------

  function writeWords() {
    const subjects = [...new Set(runs.map((run) => run.subject).filter(Boolean))];
    const title = `${subjects.join(', ') || 'Runs'}: ${runs.length === 1 ? runs[0].label : plural(runs.length, 'run')}`;
    document.title = `${title} – Laconic`;
    document.getElementById('title').textContent = title;
    const common = new Map(data.common);
    const facts = [['task.model', 'model'], ['run.workers', 'workers'], ['run.steps', 'steps'], ['run.learning_rate', 'learning rate'], ['run.seed', 'seed']];
    document.getElementById('subtitle').textContent =
      facts.filter(([key]) => common.has(key)).map(([key, word]) => `${word} ${common.get(key)}`).join(' · ');

    const notes = runs.flatMap((run) => run.notes.map((note) => `${run.label}: ${note}.`));
    document.getElementById('notes').append(...notes.map((note) => element('li', { textContent: note })));
    document.getElementById('notes').hidden = notes.length === 0;

    const settings = data.common.slice();
    for (const run of runs) {
      settings.push([run.label, run.settings.map(([key, value]) => `${key} = ${value}`).join(', ') || run.folder]);
    }
    document.getElementById('settings').append(
      ...settings.flatMap(([key, value]) => [element('dt', { textContent: key }), element('dd', { textContent: value })]));

    const thinned = runs.filter((run) => ['evaluations', 'steps'].some((table) => run[table].made > run[table].step.length));
    document.getElementById('thinning').textContent = thinned.length === 0 ? '' :
      `Thinned, in the charts and their CSV files: ${thinned.map((run) => run.label).join(', ')}. Of each short stretch the lowest and ` +
      'the highest point are kept, so peaks are; metrics.jsonl in the run\'s folder has all.';
    document.getElementById('made').textContent =
      `Made by laconic ${data.laconic} from ${plural(runs.length, 'run')}. Charts: plotly.js ${Plotly.version}, MIT license, inside this file.`;
  }

  writeWords();
  drawTable();
  makeChips();
  makeCharts();
  setTheme(remembered() || (system.matches ? 'dark' : 'light'));
  system.addEventListener('change', () => { if (!remembered()) setTheme(system.matches ? 'dark' : 'light'); });
  document.getElementById('theme').onclick = () => {
    const other = theme() === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('laconic-theme', other); } catch { /* a browser that remembers nothing */ }
    setTheme(other);
  };
})();
