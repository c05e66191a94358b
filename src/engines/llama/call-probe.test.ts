import { Template } from '@huggingface/jinja';
import { describe, expect, it } from 'vitest';
import { learnToolSupport } from './call-probe.ts';
import { CALL_ID, GENERIC_SYNTAX } from './call-syntax.ts';
import {
  CONTROL_TEXTS,
  DEEPSEEK,
  END_TEXTS,
  GRANITE,
  HERMES,
  LLAMA_3,
  MISTRAL_LIST,
  MISTRAL_MARKS,
  XML,
} from './testing/tool-templates.ts';

function learn(source: string) {
  const template = new Template(source);
  return learnToolSupport({
    render(messages, tools) {
      try {
        return template.render({
          messages,
          tools,
          add_generation_prompt: true,
          bos_token: '<s>',
          eos_token: '</s>',
        });
      } catch {
        return undefined;
      }
    },
    controlTexts: CONTROL_TEXTS,
    endTexts: END_TEXTS,
  });
}

const USUAL = { argumentsAsText: false, singleCalls: false, withoutCalls: '' };

describe('learnToolSupport', () => {
  it('learns calls between tags', () => {
    expect(learn(HERMES)).toEqual({ ...USUAL, syntax: GENERIC_SYNTAX });
  });

  it('learns a list after a control token, with the spacing of the template', () => {
    expect(learn(GRANITE)).toEqual({
      ...USUAL,
      syntax: {
        mark: '<|tool_call|>',
        open: '<|tool_call|>[{"name":"',
        nameEnd: '"',
        middle: ',"arguments":',
        close: '}',
        next: { choice: ',', rest: '{"name":"' },
        end: ']',
      },
    });
  });

  it('learns bare JSON, one call in a message', () => {
    expect(learn(LLAMA_3)).toEqual({
      ...USUAL,
      singleCalls: true,
      syntax: {
        mark: undefined,
        open: '{"name": "',
        nameEnd: '"',
        middle: ', "parameters": ',
        close: '}',
        next: undefined,
        end: '',
      },
    });
  });

  it('learns where the id stands', () => {
    expect(learn(MISTRAL_LIST)?.syntax).toEqual({
      mark: '[TOOL_CALLS]',
      open: '[TOOL_CALLS][{"name": "',
      nameEnd: '"',
      middle: ', "arguments": ',
      close: `, "id": "${CALL_ID}"}`,
      next: { choice: ',', rest: ' {"name": "' },
      end: ']',
    });
    expect(learn(MISTRAL_MARKS)?.syntax).toEqual({
      mark: '[TOOL_CALLS]',
      open: '[TOOL_CALLS]',
      nameEnd: '[CALL_ID]',
      middle: `${CALL_ID}[ARGS]`,
      close: '',
      next: { choice: '[TOOL_CALLS]', rest: '' },
      end: '',
    });
  });

  it('learns that arguments are printed as they come, and that a call has no thought before it', () => {
    expect(learn(DEEPSEEK)).toEqual({
      argumentsAsText: true,
      singleCalls: false,
      withoutCalls: '<think>\n',
      syntax: {
        mark: '<|calls_begin|>',
        open: '<|calls_begin|><|call_begin|>function<|sep|>',
        nameEnd: '\n',
        middle: '',
        close: '<|call_end|>',
        next: { choice: '<|call_begin|>', rest: 'function<|sep|>' },
        end: '<|calls_end|>',
      },
    });
  });

  it('takes mere words for a beginning, not for a mark', () => {
    expect(learn(HERMES.replaceAll('<tool_call>', 'Action'))?.syntax).toMatchObject({
      mark: undefined,
      open: 'Action\n{"name": "',
    });
  });

  it('allows one call where calls are numbered', () => {
    const numbered = HERMES.replace("{'name'", "{'number': loop.index, 'name'");
    expect(learn(numbered)).toMatchObject({
      singleCalls: false,
      syntax: { open: '<tool_call>\n{"number": 1, "name": "', next: undefined },
    });
  });

  it.each([
    ['arguments that are no JSON', XML],
    ['a template without tools', '{% for message in messages %}{{ message.content }}{% endfor %}'],
    ['definitions that are not shown', HERMES.replace('{% for tool in tools %} {{ tool | tojson }}{% endfor %}', '')],
    [
      'results that are not shown',
      HERMES.replace('{{ message.content }}', "{% if message.role != 'tool' %}{{ message.content }}{% endif %}"),
    ],
    [
      'the name after the arguments',
      HERMES.replace(
        "'name': call.function.name, 'arguments': call.function.arguments",
        "'arguments': call.function.arguments, 'name': call.function.name",
      ),
    ],
    [
      'a mark that plain answers have too',
      HERMES.replace(
        '{{ message.content }}',
        "{% if message.role == 'assistant' %}<tool_call>{% endif %}{{ message.content }}",
      ).replace("{{ '\\n' if not loop.first }}<tool_call>", ''),
    ],
    [
      'calls that begin with the end of a turn',
      HERMES.replace("{{ '\\n' if not loop.first }}<tool_call>", '<|im_end|>call'),
    ],
  ])('learns nothing from %s', (_, source) => {
    expect(learn(source)).toBeUndefined();
  });
});
