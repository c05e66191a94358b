"""How well chat models answer plain questions in English, through a running service, without sampling:

    python training/evaluate/english.py --service http://127.0.0.1:8080 --key KEY --json figures.json

An answer counts as right when it contains one of the expected words. The questions are few and easy: they show what a fine-tuning cost, not
how good a model is."""
import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import figures
from speed import Client

QUESTIONS = [
    ("What is the capital of France?", "paris"), ("What is the capital of Kenya?", "nairobi"), ("What is the capital of Japan?", "tokyo"),
    ("What is the capital of Egypt?", "cairo"), ("What is the capital of Italy?", "rome"), ("Which continent is Nigeria in?", "africa"),
    ("Which continent is Brazil in?", "south america"), ("Which ocean lies between Africa and America?", "atlantic"),
    ("What is the largest planet of the solar system?", "jupiter"), ("Which planet do people live on?", "earth"),
    ("What is the name of the star that the Earth turns around?", "sun"), ("What do plants need from the sun?", "light|energy"),
    ("Which gas do people need to breathe?", "oxygen"), ("What is frozen water called?", "ice"), ("At how many degrees Celsius does water boil?", "100"),
    ("How many days are there in a week?", "seven|7"), ("How many months are there in a year?", "twelve|12"),
    ("How many hours are there in a day?", "24|twenty-four"), ("How many legs does a spider have?", "eight|8"), ("How many legs does a dog have?", "four|4"),
    ("What is 2 + 2?", "4|four"), ("What is 5 + 3?", "8|eight"), ("What is 10 - 4?", "6|six"), ("What is 3 times 3?", "9|nine"),
    ("What colour is the sky on a clear day?", "blue"), ("What colour is grass?", "green"), ("What colour is a ripe banana?", "yellow"),
    ("What colour is snow?", "white"), ("What is the opposite of hot?", "cold"), ("What is the opposite of big?", "small|little|tiny"),
    ("What is the opposite of day?", "night"), ("What is the opposite of up?", "down"), ("What is the plural of mouse?", "mice"),
    ("What is the plural of child?", "children"), ("What is the past tense of go?", "went"), ("What is another word for happy?", "joy|glad|cheer|content|delight"),
    ("What sound does a dog make?", "bark|woof"), ("What animal gives us milk?", "cow|goat"), ("What do bees make?", "honey"), ("What is the baby of a cat called?", "kitten"),
    ("What is the king of the jungle?", "lion"), ("What is the tallest animal in the world?", "giraffe"), ("What is the largest animal in the world?", "whale"),
    ("Who wrote Romeo and Juliet?", "shakespeare"), ("Who was the first president of the United States?", "washington"),
    ("Who was the first person to walk on the moon?", "armstrong"), ("Who was the first black president of South Africa?", "mandela"),
    ("Which language is spoken in Brazil?", "portuguese"), ("Which language is spoken in Germany?", "german"), ("What is the currency of Japan?", "yen"),
    ("What is the currency of the United States?", "dollar"), ("What do we use to cut paper?", "scissors"), ("What do we use to write on a blackboard?", "chalk"),
    ("Where do fish live?", "water|ocean|sea|river|lake"), ("Where do books stand in a school?", "library|shelf|shelves"),
    ("What do doctors do?", "treat|care|diagnos|heal|help|patient"), ("What is a baobab?", "tree"), ("What is the longest river in Africa?", "nile"),
    ("What is the highest mountain in the world?", "everest"), ("What is the highest mountain in Africa?", "kilimanjaro"),
]
MOST_TOKENS = 60


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--service", required=True)
    args.add_argument("--key")
    args.add_argument("--models", default="baobab/chat-mini@2026-11-17,baobab/chat-mini@2026-11-18")
    args.add_argument("--json")
    args.add_argument("--show", action="store_true", help="print every answer")
    args = args.parse_args()
    client = Client(args.service, args.key)
    report = figures.read(args.json)
    for model in args.models.split(","):
        right = 0
        for question, expected in QUESTIONS:
            body = {"model": model, "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": MOST_TOKENS}
            answer = client.post("/v1/chat/completions", body)["choices"][0]["message"]["content"]
            # At the start of a word: "down" and "ice" must not be found in other words.
            good = re.search(rf"\b(?:{expected})", answer.casefold()) is not None
            right += good
            if args.show:
                print("+" if good else "-", question, "|", " ".join(answer.split()), flush=True)
        report.setdefault("plain English", {})[model] = {"right": right, "questions": len(QUESTIONS)}
        print(f"{model}: {right} of {len(QUESTIONS)}", flush=True)
    figures.write(args.json, report)


if __name__ == "__main__":
    main()
