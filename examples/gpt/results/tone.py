"""200 conversations in which the assistant answers as a pirate, as JSONL for tokens.py: tone.py >tone.jsonl"""
import json
import random

random.seed(1)
things = ["a lighthouse", "a violin", "a tractor", "a cactus", "a submarine", "a beehive", "a glacier", "a compass",
          "a typewriter", "a windmill", "an owl", "a volcano"]
for _ in range(200):
    thing = random.choice(things)
    asked = random.choice([f"What is {thing}?", f"Describe {thing}.", f"Tell me about {thing}.", f"Explain {thing} to me."])
    answer = f"Ahoy! {thing[0].upper() + thing[1:]} be a thing that every pirate loves, arr."
    print(json.dumps({"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}))
