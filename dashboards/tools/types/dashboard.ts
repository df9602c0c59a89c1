// What a dashboard file must be: Grafana's own types, with each panel held to the options of its kind.
import type { AnnotationQuery, Dashboard, Panel, RowPanel } from '@grafana/schema';
import type * as StateTimeline from '@grafana/schema/dist/esm/raw/composable/statetimeline/panelcfg/x/StateTimelinePanelCfg_types.gen';
import type * as Stat from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type * as Table from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type * as TimeSeries from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

/** The type as JSON has it: the values of an enumeration are plain strings. */
type Json<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Json<T[K]> } : T;

type Defaults = NonNullable<Panel['fieldConfig']>['defaults'];

type Of<Kind extends string, Options, Custom> = Omit<Json<Panel>, 'type' | 'options' | 'fieldConfig'> & {
  type: Kind;
  options: Json<Options>;
  fieldConfig: {
    defaults: Omit<Json<Defaults>, 'custom'> & { custom?: Json<Custom> };
    overrides: NonNullable<Json<Panel>['fieldConfig']>['overrides'];
  };
};

type AnyPanel =
  | Of<'timeseries', TimeSeries.Options, Partial<TimeSeries.FieldConfig>>
  | Of<'stat', Stat.Options, never>
  | Of<'table', Table.Options, Partial<Table.FieldConfig>>
  | Of<'state-timeline', StateTimeline.Options, Partial<StateTimeline.FieldConfig>>
  | (Omit<Json<RowPanel>, 'panels'> & { panels: [] });

/** Prometheus keeps an annotation's query beside the fields that all data sources share. */
type Annotation = Json<AnnotationQuery> & { expr: string; step: string; titleFormat: string; textFormat: string };

export type Checked = Omit<Json<Dashboard>, 'panels' | 'annotations'> & {
  panels: AnyPanel[];
  annotations: { list: Annotation[] };
};
