"""The prompt: asks, and answers with values or errors, until the input ends."""

from __future__ import annotations

from threading import Thread

from .progress import watched
from .prompt_session import Conversation
from .report import report

LEAVE = ("exit", "quit")
#: what other prompts take for that
ALSO_LEAVE = (*(f":{word}" for word in LEAVE), ":q")


def converse(conversation: Conversation, banner: str) -> int:
    """Talk to a person at a terminal; the exit status is 0, whatever went wrong on the way.

    Enter runs what is typed, or goes on to the next line while a block or bracket is open.
    Ctrl-C drops what is typed, or stops what runs; Ctrl-D on an empty line leaves.
    """
    from .terminal import asking

    # the language takes longer to start than the prompt, and has the time until Enter
    loading = Thread(target=conversation.load)
    ask = asking(conversation, loading.start)
    if banner:
        print(banner)
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return 0
        try:
            with watched():
                answer(conversation, text)
        except EOFError:
            return 0
        except (Exception, KeyboardInterrupt) as error:
            report(error)


def answer(conversation: Conversation, text: str) -> None:
    """Run `text`: a command of the prompt, or statements. Raises EOFError to leave, FinchError."""
    text = text.strip()
    word, _, rest = text.partition(" ")
    name = word.removesuffix("()")
    is_own = name in conversation.session
    if text in ALSO_LEAVE or (name in LEAVE and not rest and not is_own):
        raise EOFError
    if text.startswith((":", "?")) or (name == "help" and not is_own):
        from .directives import obey

        obey(conversation, text if text[0] in ":?" else f":help {rest}")
    else:
        conversation.run(text, "<input>")
