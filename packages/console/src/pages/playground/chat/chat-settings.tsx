import type { Model } from '../../../api/types.ts';
import { Button } from '../../../components/button.tsx';
import { optionsOf, Select } from '../../../components/choices.tsx';
import { TextArea, TextField } from '../../../components/fields.tsx';
import { Card } from '../../../components/page.tsx';
import { texts } from '../../../texts/en/texts.ts';
import { ModelSelect } from '../parts.tsx';
import { type ChatSettings, TOOLS_EXAMPLE } from './conversation.ts';

export interface ChatSettingsPanelProps {
  models: Model[];
  model: Model;
  second: Model | undefined;
  settings: ChatSettings;
  problems: { tools?: string; schema?: string };
  onChange: (changes: Partial<ChatSettings>) => void;
  onModel: (id: string) => void;
  onSecond: (id: string | undefined) => void;
}

export function ChatSettingsPanel(props: ChatSettingsPanelProps) {
  const { models, model, second, settings, problems, onChange, onModel, onSecond } = props;
  const { playground } = texts;
  const other = models.find(({ id }) => id !== model.id) ?? model;
  const able = model.capabilities;
  const number = (name: 'temperature' | 'maxTokens' | 'seed', label: string, step: string) => (
    <TextField
      label={label}
      type="number"
      min={0}
      step={step}
      placeholder={playground.automatic}
      value={settings[name]}
      onValue={(value) => onChange({ [name]: value })}
    />
  );
  return (
    <Card
      title={playground.settings}
      aside={
        <Button
          tone="quiet"
          size="small"
          icon="compare"
          pressed={second !== undefined}
          onClick={() => onSecond(second ? undefined : other.id)}
        >
          {second ? playground.single : playground.compare}
        </Button>
      }
    >
      <div class="stack">
        <ModelSelect label={playground.model} models={models} value={model.id} onValue={onModel} />
        {second && <ModelSelect label={playground.modelB} models={models} value={second.id} onValue={onSecond} />}
        <TextArea
          label={playground.system}
          placeholder={playground.systemHint}
          rows={3}
          value={settings.system}
          onValue={(system) => onChange({ system })}
        />
        <div class="fields-narrow">
          {number('temperature', playground.temperature, '0.1')}
          {number('seed', playground.seed, '1')}
        </div>
        {number('maxTokens', playground.maxTokens, '1')}
        <Select
          label={playground.format}
          value={settings.format}
          onValue={(format) => onChange({ format: format as ChatSettings['format'] })}
          options={optionsOf(playground.formats).filter(
            ({ value }) => value !== 'json_schema' || able.structured_output || settings.format === 'json_schema',
          )}
        />
        {settings.format === 'json_schema' && (
          <TextArea
            label={playground.schema}
            mono
            rows={7}
            value={settings.schema}
            error={problems.schema === undefined ? undefined : playground.badJson(problems.schema)}
            onValue={(schema) => onChange({ schema })}
          />
        )}
        {(able.tools || settings.tools !== '') && (
          <div class="stack-tight">
            <TextArea
              label={playground.tools}
              hint={playground.toolsHint}
              mono
              rows={settings.tools === '' ? 2 : 8}
              value={settings.tools}
              error={problems.tools === undefined ? undefined : playground.badJson(problems.tools)}
              onValue={(tools) => onChange({ tools })}
            />
            {settings.tools === '' && (
              <div>
                <Button size="small" onClick={() => onChange({ tools: TOOLS_EXAMPLE })}>
                  {playground.toolsExample}
                </Button>
              </div>
            )}
          </div>
        )}
      </div>
    </Card>
  );
}
