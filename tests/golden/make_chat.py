"""Conversations in public chat templates, as transformers' Jinja renders them: golden_chat.inc, for test_chat. Templates from
Llama 3.1's on are written here, and write what the public ones write.

    make_chat.py >golden_chat.inc

{...} is a special token, [...] what is to be learnt. tests/long/chat_templates.sh compares tokens of real vocabularies.
"""
import datetime
import re

from transformers.utils import chat_template_utils
from transformers.utils.chat_template_utils import render_jinja_template

BOS, EOS = "<s>", "</s>"
DAY = "26 Jul 2024"  # date_string, which is today for Llama 3.2 where nobody sets it
# what SmolLM3's template has as today
chat_template_utils.datetime = type("Then", (), {"now": staticmethod(lambda: datetime.datetime(2025, 7, 8))})
SPECIAL = [BOS, EOS, "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|user|>", "<|assistant|>",
           "<|system|>", "<|end|>", "<start_of_turn>", "<end_of_turn>"]
INST = ["[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]  # special to Mistral from 0.3 on
CHATML = "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
USUAL = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n%s<|im_end|>\n' }}{% endif %}"
ASKS = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
ALTERNATE = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate "
             "user/assistant/user/assistant/...') }}{% endif %}")
OTHERS = "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
SYSTEM = ("{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}"
          "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}")
LLAMA2 = ("{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + "
          "message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
          "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}")
MISTRAL = ("{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if message['role'] == 'user' %}{{ '[INST] ' + "
           "message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}%s" + OTHERS)
QWEN25 = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query." }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
MISTRAL_SYSTEM = r"""{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\n\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}
    {%- endif %}
{%- endfor %}
"""
PHI3 = ("{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') %}"
        "{{'<|user|>' + '\n' + message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}"
        "{% elif (message['role'] == 'assistant') %}{{message['content'] + '<|end|>' + '\n'}}{% endif %}"
        "{% endfor %}")
PHI3_SYSTEM = ("{% for message in messages %}{% if message['role'] == 'system' %}"
               "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
               "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
               "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}")
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}"
          "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
          "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
         "{% endif %}{% for message in messages %}" + ALTERNATE +
         "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
         "{% set role = message['role'] %}{% endif %}"
         "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
         "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}")
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n"
          "{{ '<|user|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n"
          "{{ '<|system|>\n' + message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n"
          "{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n"
          "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")
LOOP = ("{%- if messages[0].role == 'system' %}{%- set system_message = messages[0].content@ %}"
        "{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}")
LLAMA31 = ("{{- bos_token }}{%- if not date_string is defined %}@{%- endif %}{%- set system_message = '' %}" +
           LOOP.replace("@", " | trim") + "{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' }}"
           "{%- if builtin_tools is defined or tools is not none %}{{- 'Environment' }}{%- endif %}"
           "{%- if builtin_tools is defined %}{{- 'Tools: ' + builtin_tools }}{%- endif %}"
           "{{- 'Cutting Knowledge Date: December 2023\\n' }}{{- 'Today Date: ' + date_string + '\\n\\n' }}"
           "{%- if tools is not none and not tools_in_user_message %}{{- 'tools' }}{%- endif %}"
           "{{- system_message }}{{- '<|eot_id|>' }}{%- if tools_in_user_message and not tools is none %}"
           "{%- if tools %}{{- 'a' }}{%- else %}{{- 'b' }}{%- endif %}{%- endif %}"
           "{%- for message in loop_messages %}{%- if not (message.role == 'ipython' or 'tool_calls' in message) %}"
           "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}"
           "{%- elif 'tool_calls' in message %}{{- message.tool_calls }}"
           "{%- elif message.role == 'tool' or message.role == 'ipython' %}{{- 'ipython' }}{%- endif %}{%- endfor %}"
           "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}")
FIXED = "{%- set date_string = '26 Jul 2024' %}"
TODAY = "{%- if strftime_now is defined %}{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}" + FIXED + "{%- endif %}"
QWEN3 = ("{%- if tools %}{{- 'tools' }}{%- elif messages[0].role == 'system' %}"
         "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}{%- endif %}"
         "{%- set ns = namespace(seeks=true, asked=messages|length - 1) %}{%- for message in messages[::-1] %}"
         "{%- if ns.seeks and message.role == 'user' and "
         "not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}"
         "{%- set ns.seeks = false %}{%- set ns.asked = messages|length - 1 - loop.index0 %}{%- endif %}{%- endfor %}"
         "{%- for message in messages %}@")
QWEN3_USER = ("{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}"
              "{{- '<|im_start|>' + message.role + '\\n' + @ + '<|im_end|>' + '\\n' }}{%- elif message.role == 'assistant' %}")
QWEN3_CONTENT = ("{%- if message.content is string %}{%- set content = message.content %}{%- else %}"
                 "{%- set content = '' %}{%- endif %}")
QWEN3_SAYS = "{%- set content = @.split('</think>')[-1].lstrip('\\n') %}"
QWEN3_THINKS = ("{%- set reasoning_content = @.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}")
QWEN3_PLAIN = "{{- '<|im_start|>' + message.role + '\\n' + content }}"
QWEN3_ANSWER = ("{%- if loop.index0 > ns.asked and (loop.last or reasoning_content) %}"
                "{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + "
                "content.lstrip('\\n') }}{%- else %}" + QWEN3_PLAIN + "{%- endif %}")
QWEN3_END = ("{%- if message.tool_calls %}{{- '<tool_call>' }}{%- endif %}{{- '<|im_end|>\\n' }}"
             "{%- elif message.role == 'tool' %}{{- '<tool_response>' }}{%- endif %}{%- endfor %}"
             "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}@{%- endif %}")
UNTHINKING = "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
QWEN3_FIRST = (QWEN3.replace("@", "") + QWEN3_USER.replace("@", "message.content") + "{%- set content = message.content %}"
               "{%- set reasoning_content = '' %}{%- if '</think>' in message.content %}" +
               (QWEN3_SAYS + QWEN3_THINKS).replace("@", "message.content") + "{%- endif %}" + QWEN3_ANSWER +
               QWEN3_END.replace("@", UNTHINKING))
QWEN3_LATER = (QWEN3.replace("@", QWEN3_CONTENT) + QWEN3_USER.replace("@", "content") + "{%- set reasoning_content = '' %}"
               "{%- if '</think>' in content %}" + (QWEN3_THINKS + QWEN3_SAYS).replace("@", "content") + "{%- endif %}" +
               QWEN3_ANSWER + QWEN3_END.replace("@", UNTHINKING))
QWEN3_2507 = QWEN3.replace("@", QWEN3_CONTENT) + QWEN3_USER.replace("@", "content") + QWEN3_PLAIN + QWEN3_END.replace("@", "")
MISTRAL3 = (LOOP.replace("@", "") + "{%- set user_messages = loop_messages | selectattr('role', 'equalto', 'user') | list %}"
            "{{- bos_token }}{%- for message in loop_messages %}{%- if message.role == 'user' %}"
            "{%- if tools is not none and (message == user_messages[-1]) %}{{- '[AVAILABLE_TOOLS]' }}{%- endif %}"
            "{%- if loop.last and system_message is defined %}"
            "{{- '[INST]@' + system_message + '\\n\\n' + message.content + '[/INST]' }}"
            "{%- else %}{{- '[INST]@' + message.content + '[/INST]' }}{%- endif %}"
            "{%- elif (message.tool_calls is defined and message.tool_calls is not none) %}{{- '[TOOL_CALLS]' }}"
            "{%- elif message.role == 'assistant' %}{{- # + eos_token }}"
            "{%- elif message.role == 'tool_results' or message.role == 'tool' %}{{- '[TOOL_RESULTS]' }}"
            "{%- endif %}{%- endfor %}")
MISTRAL7 = ("{{- bos_token }}{%- for message in messages %}{%- if message.role == 'user' %}"
            "{{- '[INST]' + message.content + '[/INST]' }}{%- elif message.role == 'system' %}"
            "{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}{%- elif message.role == 'assistant' %}"
            "{{- message.content + eos_token }}{%- endif %}{%- endfor %}")
MISTRAL7_USUAL = ("{%- set default_system_message = \"Be kind. Don't guess.\" %}" + MISTRAL7.replace(
    "{%- for", "{%- if messages[0].role != 'system' %}{%- set system_message = default_system_message %}"
    "{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}{%- endif %}{%- for", 1))
GEMMA3 = ("{{ bos_token }}{%- if messages[0].role == 'system' -%}{%- if messages[0].content is string -%}"
          "{%- set first_user_prefix = messages[0].content + '\\n\\n' -%}{%- else -%}"
          "{%- set first_user_prefix = messages[0].content[0].text + '\\n\\n' -%}{%- endif -%}"
          "{%- set loop_messages = messages[1:] -%}{%- else -%}{%- set first_user_prefix = '' -%}"
          "{%- set loop_messages = messages -%}{%- endif -%}{%- for message in loop_messages -%}"
          "{%- if message.role == 'assistant' -%}{%- set role = 'model' -%}{%- else -%}"
          "{%- set role = message.role -%}{%- endif -%}"
          "{{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else '') }}"
          "{%- if message.content is string -%}{{ message.content | trim }}{%- else -%}{%- for item in message.content -%}"
          "{%- if item.type == 'image' -%}{{ '<start_of_image>' }}{%- else -%}{{ item.text | trim }}{%- endif -%}"
          "{%- endfor -%}{%- endif -%}{{ '<end_of_turn>\\n' }}{%- endfor -%}"
          "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}")

UNTHOUGHT = "<think>\n\n</think>\n"  # in SmolLM3's prompts under /no_think
SMOLLM3 = (r"""{% if enable_thinking is defined and not enable_thinking %}{% set reasoning_mode = '/no_think' %}
{% else %}{% set reasoning_mode = '/think' %}{% endif %}
{{ '<|im_start|>system\n' }}
{%- if messages[0].role == 'system' %}{% set system_message = messages[0].content %}
{% if '/no_think' in system_message %}{% set reasoning_mode = '/no_think' %}
{% elif '/think' in system_message %}{% set reasoning_mode = '/think' %}{% endif %}
{% set custom_instructions = system_message.replace('/no_think', '').replace('/think', '').rstrip() %}{% endif %}
{% if system_message is defined and '/system_override' in system_message %}
{{ custom_instructions.replace('/system_override', '').rstrip() + '<|im_end|>\n' }}
{%- else %}{{ '## Metadata\n\nKnowledge Cutoff Date: June 2025\n' }}{% set today = strftime_now('%d %B %Y') %}
{{ 'Today Date: ' ~ today ~ '\nReasoning Mode: ' + reasoning_mode + '\n\n## Custom Instructions\n\n' }}
{%- if custom_instructions %}{{ custom_instructions + '\n\n' }}
{%- elif reasoning_mode == '/think' %}{{ 'Think in <think>, then say it.\n\n' }}{% else %}{{ "Don't think.\n\n" }}{% endif %}
{% if xml_tools or python_tools@ %}{{ '### Tools\n\n' }}{% if tools %}{{ 'a' }}{% else %}{{ 'b' }}{% endif %}
{{ '<|im_end|>\n' }}{% endif %}{% endif %}
{% for message in messages %}{% set content = message.content if message.content is string else '' %}
{% if message.role == 'user' %}{{ '<|im_start|>' + message.role + '\n' + content + '<|im_end|>\n' }}
{%- elif message.role == 'assistant' %}{% generation %}{% if reasoning_mode == '/think' %}
{{ '<|im_start|>assistant\n' + content.lstrip('\n') + '<|im_end|>\n' }}
{%- else %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n' + content.lstrip('\n') + '<|im_end|>\n' }}{% endif %}
{% endgeneration %}{% elif message.role == 'tool' %}{{ '<|im_start|>user\n' + content + '<|im_end|>\n' }}{% endif %}{% endfor %}
{% if add_generation_prompt %}{% if reasoning_mode == '/think' %}{{ '<|im_start|>assistant\n' }}
{%- else %}{{ '<|im_start|>assistant\n<think>\n\n</think>\n' }}{% endif %}{% endif %}""")

# family, system messages, template; then what the assistant says is found by: what stands before, and the end of it.
TEMPLATES = [
    ("ChatML", True, "{% for message in messages %}" + CHATML + ASKS, "<|im_start|>assistant\n", "<|im_end|>"),
    ("ChatML", True, USUAL.replace("%s", "You are a helpful AI assistant named SmolLM, trained by Hugging Face") + CHATML + ASKS,
     "<|im_start|>assistant\n", "<|im_end|>"),
    ("ChatML", True, (USUAL.replace("%s", "You are a helpful assistant.") + CHATML + ASKS).replace("\n", r"\n"),
     "<|im_start|>assistant\n", "<|im_end|>"),
    ("Qwen2.5", True, QWEN25, "<|im_start|>assistant\n", "<|im_end|>"),
    ("Llama 2", True, SYSTEM + ALTERNATE + LLAMA2 + "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}", "[/INST]", EOS),
    ("Llama 3", True, LLAMA3, "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    ("Mistral", False, MISTRAL.replace("%s", "{{ message['content'] + eos_token}}"), "[/INST]", EOS),
    ("Mistral 0.1", False, MISTRAL.replace("%s", "{{ message['content'] + eos_token + ' ' }}"), "[/INST]", EOS),
    ("Mistral with system messages", True, MISTRAL_SYSTEM, "[/INST]", EOS),
    ("Phi-3", False, PHI3, "<|assistant|>\n", "<|end|>"),
    ("Phi-3 with system messages", True, PHI3_SYSTEM, "<|assistant|>\n", "<|end|>"),
    ("Gemma", False, GEMMA, "<start_of_turn>model\n", "<end_of_turn>"),
    ("Zephyr", True, ZEPHYR, "<|assistant|>\n", EOS),
    ("Llama 3.1", True, LLAMA31.replace("@", FIXED), "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    ("Llama 3.2", True, LLAMA31.replace("@", TODAY), "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    ("Qwen3", True, QWEN3_FIRST, "<|im_start|>assistant\n", "<|im_end|>"),
    ("Qwen3", True, QWEN3_LATER, "<|im_start|>assistant\n", "<|im_end|>"),
    ("Qwen3 2507 Instruct", True, QWEN3_2507, "<|im_start|>assistant\n", "<|im_end|>"),
    ("Mistral 0.3", False, MISTRAL3.replace("@", " ").replace("#", "' ' + message.content | trim"), "[/INST]", EOS),
    ("Mistral Nemo", False, MISTRAL3.replace("@", "").replace("#", "message.content"), "[/INST]", EOS),
    ("Mistral Small", True, MISTRAL7, "[/INST]", EOS),
    ("Mistral Small", True, MISTRAL7_USUAL, "[/INST]", EOS),
    ("Gemma 3", True, GEMMA3, "<start_of_turn>model\n", "<end_of_turn>"),
    ("SmolLM3", True, SMOLLM3.replace("@", ""), "<|im_start|>assistant\n", "<|im_end|>"),
    ("SmolLM3", True, SMOLLM3.replace("@", " or tools"), "<|im_start|>assistant\n", "<|im_end|>"),
]
CONVERSATIONS = [
    [("user", "Hi there"), ("assistant", "Hello!")],
    [("system", "Be brief.\n"), ("user", "  Two\nlines \n"), ("assistant", " Yes. "), ("user", "\u3000\u00e9?"), ("assistant", "\tend\u00a0")],
    [("user", "\nHi")],  # to be answered
    [("user", "Add"), ("assistant", "<think>\nOne\n</think>\n\n2"), ("user", "More"),
     ("assistant", "a<think>b<think>\n\nTwo\n\n</think>c</think>\n\n4"), ("user", "<tool_response>5</tool_response>"),
     ("assistant", "\n6"), ("user", "<tool_response></tool_response>"), ("assistant", "\n7</think>\n\n8")],
]


def learnt(text, before, end):
    """What the assistant says, in brackets."""
    parts = text.split(before + UNTHOUGHT if "Mode: /no_think" in text else before)
    before = before + UNTHOUGHT if "Mode: /no_think" in text else before
    return parts[0] + "".join(f"{before}[{part.replace(end, end + ']', 1)}" if end in part else before + part for part in parts[1:])


def render(template, messages, prompts, bos=BOS, eos=EOS):
    messages = [{"role": role, "content": content} for role, content in messages]
    return render_jinja_template([messages], chat_template=template, add_generation_prompt=prompts, bos_token=bos, eos_token=eos,
                                 date_string=DAY)[0][0]


def golden(family, system, template, before, end):
    for messages in CONVERSATIONS:
        text = render(template, messages if system else [m for m in messages if m[0] != "system"], len(messages) == 1)
        text = learnt(text, before, end)
        for token in SPECIAL:
            text = text.replace(token, "{" + token + "}")
        if family.startswith("Phi"):  # whose tokens take the white space behind them
            text = re.sub(r"(\{<\|\w+\|>\}\]?)\s*(\[?)\s*", r"\1\2", text)
        yield text


def literal(text):
    return '"' + "".join({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t"}.get(c, c) if ord(c) < 128 else
                         "".join(f"\\{b:03o}" for b in c.encode()) for c in text) + '"'


if __name__ == "__main__":
    print("/* Made by make_chat.py with transformers. */")
    for row in TEMPLATES:
        print("{" + ",\n".join(literal(text) for text in (row[0], row[2])) + f", {str(row[1]).lower()},\n{{" +
              ",\n".join(literal(text) for text in golden(*row)) + "}},")
