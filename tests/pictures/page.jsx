// One board, drawn by Grafana's own components: frames, stats, time series and their legends are those of @grafana/ui.
// State timelines and heatmaps are not in that package, so they are drawn here, in Grafana's colours.

import 'uplot/dist/uPlot.min.css';

import UPNG from 'upng-js';
import { FieldType, createDataFrame, createTheme, dateTime, getDisplayProcessor } from '@grafana/data';
import { BigValue, PanelChrome, ThemeContext, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

const THEME = createTheme({ colors: { mode: 'dark' } });
const COLUMNS = 24;
const CELL = 30;
const GAP = 8;
const MARGIN = 16;
const LABELS = 110;

const colour = (name) => THEME.visualization.getColorByName(name);

// What Grafana's panel plugins assume where a board says nothing.
const LINES = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  showPoints: 'never',
  pointSize: 5,
  axisPlacement: 'auto',
  axisColorMode: 'text',
  scaleDistribution: { type: 'linear' },
  stacking: { mode: 'none', group: 'A' },
  thresholdsStyle: { mode: 'off' },
  spanNulls: false,
  hideFrom: { legend: false, tooltip: false, viz: false },
};

function frameOf(series, index, panel, stepMs) {
  const { custom, ...defaults } = panel.fieldConfig.defaults;
  const config = {
    ...defaults,
    displayName: series.name,
    color: defaults.color ?? { mode: 'palette-classic' },
    custom: { ...LINES, ...custom },
  };
  const frame = createDataFrame({
    name: series.name,
    fields: [
      { name: 'time', type: FieldType.time, values: series.values.map(([at]) => at * 1000), config: { interval: stepMs } },
      { name: 'value', type: FieldType.number, values: series.values.map(([, value]) => value), config },
    ],
  });
  for (const field of frame.fields) {
    field.state = { seriesIndex: index };
    field.display = getDisplayProcessor({ field, theme: THEME, timeZone: 'utc' });
  }
  return frame;
}

// Restarts and incidents as lines, exemplars as dots, in the canvas that uPlot draws on.
function mark(builder, marks, exemplars, scale) {
  builder.addHook('draw', (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    for (const { at, icon } of marks) {
      const x = plot.valToPos(at * 1000, 'x', true);
      ctx.strokeStyle = colour(icon);
      ctx.setLineDash([4, 4]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.fillStyle = colour('semi-dark-orange');
    for (const { at, value } of exemplars) {
      const [x, y] = [plot.valToPos(at * 1000, 'x', true), plot.valToPos(value, scale, true)];
      if (y >= bbox.top) {
        ctx.fillRect(x - 2, y - 2, 4, 4);
      }
    }
    ctx.restore();
  });
}

function Lines({ panel, answer, times, marks, width, height }) {
  const frames = answer.series.map((series, index) => frameOf(series, index, panel, times.step * 1000));
  const range = { from: dateTime(times.from * 1000), to: dateTime(times.to * 1000) };
  return (
    <TimeSeries
      frames={frames}
      structureRev={1}
      timeRange={{ ...range, raw: range }}
      timeZone="utc"
      width={width}
      height={height}
      legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] }}
    >
      {(builder, aligned) => {
        if (!builder.isMarked) {
          builder.isMarked = true;
          const y = builder.scales.map((each) => each.props.scaleKey).find((key) => key !== 'x');
          mark(builder, marks, answer.exemplars, y);
        }
        return null;
      }}
    </TimeSeries>
  );
}

function Figures({ panel, answer, width, height }) {
  const across = width >= height;
  const share = answer.series.length;
  const size = across ? { width: width / share, height } : { width, height: height / share };
  return (
    <div style={{ display: 'flex', flexDirection: across ? 'row' : 'column' }}>
      {answer.series.map((series, index) => {
        const frame = frameOf(series, index, panel, 1000);
        const value = frame.fields[1].display(series.values.at(-1)[1]);
        value.title = series.name;
        const { textMode, colorMode } = panel.options;
        return <BigValue key={index} {...size} {...{ value, textMode, colorMode }} count={share} theme={THEME} graphMode="none" />;
      })}
    </div>
  );
}

const clock = (at) => new Date(at * 1000).toISOString().slice(11, 19);

function Axis({ times, left, width, top }) {
  const marks = [0, 0.25, 0.5, 0.75, 1].map((share) => times.from + share * (times.to - times.from));
  return marks.map((at, index) => (
    <text
      key={at}
      x={left + (width * index) / 4}
      y={top}
      fill={THEME.colors.text.secondary}
      fontSize="12"
      textAnchor={index === 0 ? 'start' : index === 4 ? 'end' : 'middle'}
    >
      {clock(at)}
    </text>
  ));
}

// Values that follow each other and are the same are one piece.
function pieces(values, step) {
  const found = [];
  for (const [at, value] of values) {
    const last = found.at(-1);
    if (last && last.value === value && at - last.to <= step * 1.5) {
      last.to = at + step;
    } else {
      found.push({ from: at, to: at + step, value });
    }
  }
  return found;
}

function States({ panel, answer, times, width, height }) {
  const states = Object.assign({}, ...panel.fieldConfig.defaults.mappings.map((each) => each.options));
  const [right, row] = [width - LABELS, (height - 50) / answer.series.length];
  const x = (at) => LABELS + (right * (Math.min(Math.max(at, times.from), times.to) - times.from)) / (times.to - times.from);
  return (
    <svg width={width} height={height}>
      {answer.series.map((series, index) => (
        <g key={series.name}>
          <text x="0" y={row * (index + 0.5) + 4} fill={THEME.colors.text.primary} fontSize="12">
            {series.name}
          </text>
          {pieces(series.values, times.step).map((piece) => (
            <rect
              key={piece.from}
              x={x(piece.from)}
              y={row * index + row * 0.1}
              width={Math.max(x(piece.to) - x(piece.from), 1)}
              height={row * 0.8}
              fill={colour(states[piece.value]?.color ?? 'text')}
              fillOpacity="0.8"
            />
          ))}
        </g>
      ))}
      <Axis times={times} left={LABELS} width={right} top={height - 30} />
      {Object.values(states).map((state, index) => (
        <g key={state.text} transform={`translate(${LABELS + index * 150}, ${height - 16})`}>
          <rect width="14" height="4" y="4" fill={colour(state.color)} />
          <text x="20" y="10" fill={THEME.colors.text.secondary} fontSize="12">
            {state.text}
          </text>
        </g>
      ))}
    </svg>
  );
}

// Prometheus counts each bucket with all below it.
function cells(series) {
  const rows = series.map((each) => ({ le: Number(each.name.replace('+Inf', 'Infinity')), at: new Map(each.values) }));
  rows.sort((a, b) => a.le - b.le);
  const told = rows.map((row, index) => ({
    le: row.le,
    counts: [...row.at].map(([at, count]) => [at, count - (rows[index - 1]?.at.get(at) ?? 0)]),
  }));
  const used = told.map((row) => row.counts.some(([, count]) => count > 0));
  return told.slice(Math.max(used.indexOf(true) - 1, 0), used.lastIndexOf(true) + 2);
}

function Heat({ panel, answer, times, width, height }) {
  const rows = cells(answer.series);
  const display = getDisplayProcessor({ field: { type: FieldType.number, config: { unit: panel.fieldConfig.defaults.unit } }, theme: THEME });
  const [left, bottom] = [60, 24];
  const [right, row] = [width - left, (height - bottom) / rows.length];
  const every = Math.ceil(14 / row);
  const most = Math.max(...rows.flatMap((each) => each.counts.map(([, count]) => count)));
  const x = (at) => left + (right * (at - times.from)) / (times.to - times.from);
  const label = (le) => {
    const shown = display(le);
    return le === Infinity ? '+Inf' : `${shown.text}${shown.suffix ?? ''}`;
  };
  return (
    <svg width={width} height={height}>
      {rows.map((each, index) => (
        <g key={each.le} transform={`translate(0, ${height - bottom - row * (index + 1)})`}>
          <text x={left - 8} y={row / 2 + 4} fill={THEME.colors.text.secondary} fontSize="12" textAnchor="end">
            {index % every === 0 && label(each.le)}
          </text>
          {each.counts
            .filter(([, count]) => count > 0)
            .map(([at, count]) => (
              <rect
                key={at}
                x={x(at - answer.step)}
                width={x(at) - x(at - answer.step) + 0.5}
                height={row - 1}
                fill={colour('orange')}
                fillOpacity={0.15 + 0.85 * Math.sqrt(count / most)}
              />
            ))}
        </g>
      ))}
      <Axis times={times} left={left} width={right} top={height - 6} />
    </svg>
  );
}

const KINDS = { timeseries: Lines, stat: Figures, 'state-timeline': States, heatmap: Heat };

function Panel({ panel, answer, times, marks, column }) {
  const { x, y, w, h } = panel.gridPos;
  const [width, height] = [w * column - GAP, h * (CELL + GAP) - GAP];
  const place = { position: 'absolute', left: x * column, top: y * (CELL + GAP), width, height };
  if (panel.type === 'row') {
    return (
      <div style={{ ...place, fontSize: 18, fontWeight: 500, paddingTop: 8 }}>{panel.title}</div>
    );
  }
  const Kind = KINDS[panel.type];
  return (
    <div style={place}>
      <PanelChrome width={width} height={height} title={panel.title} padding="md">
        {(innerWidth, innerHeight) =>
          answer.series.length ? (
            <Kind {...{ panel, answer, times, marks }} width={innerWidth} height={innerHeight} />
          ) : (
            <div style={{ color: THEME.colors.text.secondary, textAlign: 'center', paddingTop: innerHeight / 2 - 12 }}>
              {panel.fieldConfig.defaults.noValue ?? `No data: ${answer.absent}`}
            </div>
          )
        }
      </PanelChrome>
    </div>
  );
}

function Board({ board, answers, times, marks, width }) {
  const column = (width - 2 * MARGIN + GAP) / COLUMNS;
  const rows = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  return (
    <ThemeContext.Provider value={THEME}>
      <div style={{ padding: MARGIN, background: THEME.colors.background.canvas, color: THEME.colors.text.primary }}>
        <div style={{ fontSize: 22, paddingBottom: 8 }}>{board.title}</div>
        <div style={{ position: 'relative', height: rows * (CELL + GAP) }}>
          {board.panels.map((panel) => (
            <Panel key={panel.id} panel={panel} answer={answers[panel.id]} {...{ times, marks, column }} />
          ))}
        </div>
      </div>
    </ThemeContext.Provider>
  );
}

window.draw = (told) => {
  createRoot(document.getElementById('board')).render(<Board {...told} width={window.innerWidth} />);
};

// The same picture in 256 colours, as base64: a third of the size.
window.shrink = async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
  canvas.drawImage(image, 0, 0);
  const pixels = canvas.getImageData(0, 0, image.width, image.height).data;
  const bytes = new Uint8Array(UPNG.encode([pixels.buffer], image.width, image.height, 256));
  return btoa(Array.from(bytes, (each) => String.fromCharCode(each)).join(''));
};
