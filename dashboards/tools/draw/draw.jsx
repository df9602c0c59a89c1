// Draws panels of a dashboard with Grafana's own components. data.json holds the panels, in their order, with what Prometheus
// answered to each query.
import {
  FieldConfigOptionsRegistry, FieldType, applyFieldOverrides, createTheme, dateTime, getDisplayProcessor, getFieldDisplayName,
  identityOverrideProcessor, renderLegendFormat,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, PortalContainer, ThemeContext, TimeSeries } from '@grafana/ui';
import { initPluginTranslations } from '@grafana/i18n';
import 'uplot/dist/uPlot.min.css';
import { createRoot } from 'react-dom/client';
import { dashboard, panels, from, to } from './data.json';

const COLUMNS = 3, WIDTH = 470, HEIGHT = 250, GAP = 8;
const theme = createTheme({ colors: { mode: 'light' } });
const timeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000), raw: { from: 'now-6h', to: 'now' } };

// The panel's plugin brings these in Grafana; they need a server.
const custom = {
  drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, showPoints: 'auto', pointSize: 5, gradientMode: 'none',
  axisPlacement: 'auto', axisColorMode: 'text', scaleDistribution: { type: 'linear' }, stacking: { mode: 'none', group: 'A' },
  lineStyle: { fill: 'solid' }, barAlignment: 0, barWidthFactor: 0.6, spanNulls: false,
};
const option = (isCustom) => (path) => ({
  id: isCustom ? `custom.${path}` : path, path, name: path, isCustom, process: identityOverrideProcessor, shouldApply: () => true,
});
const standard = ['unit', 'min', 'max', 'decimals', 'color', 'thresholds', 'noValue', 'mappings'];
const fieldConfigRegistry = new FieldConfigOptionsRegistry(() => [
  ...standard.map(option(false)), ...Object.keys(custom).map(option(true)),
]);

/** One frame per series, as Grafana's data source makes them. */
function frames({ legendFormat, series }) {
  return series.map(({ metric, values }) => {
    const name = legendFormat ? renderLegendFormat(legendFormat, metric) : undefined;
    return {
      length: values.length,
      fields: [
        { name: 'Time', type: FieldType.time, config: {}, values: values.map(([time]) => time * 1000) },
        { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: name }, values: values.map(([, v]) => v === null ? null : Number(v)) },
      ],
    };
  });
}

function configured({ fieldConfig, targets }) {
  const { defaults, overrides } = fieldConfig;
  return applyFieldOverrides({
    data: targets.flatMap(frames),
    fieldConfig: { overrides, defaults: { color: { mode: 'palette-classic' }, ...defaults, custom: { ...custom, ...defaults.custom } } },
    fieldConfigRegistry, theme, timeZone: 'utc', replaceVariables: (text) => text,
  });
}

function Inside({ panel, width, height }) {
  const data = configured(panel);
  if (data.length === 0) return 'No data';
  if (panel.type === 'stat') {
    const field = data[0].fields[1];
    const display = (field.display ?? getDisplayProcessor({ field, theme }))(field.values.at(-1));
    if (panel.options.textMode === 'value_and_name') display.title = getFieldDisplayName(field, data[0], data);
    return <BigValue width={width} height={height} theme={theme} value={display} {...panel.options} />;
  }
  return <TimeSeries frames={data} width={width} height={height} timeRange={timeRange} timeZone="utc" legend={panel.options.legend} />;
}

function Page() {
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ padding: GAP, background: theme.colors.background.canvas, minHeight: '100vh' }}>
        <h4 style={{ margin: `0 0 ${GAP}px` }}>{dashboard}</h4>
        <div style={{ display: 'grid', gridTemplateColumns: `repeat(${COLUMNS}, ${WIDTH}px)`, gap: GAP }}>
          {panels.map((panel) => (
            <PanelChrome key={panel.id} title={panel.title} width={WIDTH} height={HEIGHT}>
              {(width, height) => <Inside panel={panel} width={width} height={height} />}
            </PanelChrome>
          ))}
        </div>
      </div>
      <PortalContainer />
    </ThemeContext.Provider>
  );
}

initPluginTranslations('goodput').then(() => createRoot(document.getElementById('root')).render(<Page />));
