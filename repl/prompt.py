"""The prompt: reads inputs and prints values or errors, until the input ends."""

from __future__ import annotations

from threading import Thread

from .progress import watched
from .prompt_session import Conversation
from .report import report

LEAVE = ("exit", "quit")
#: as other prompts have it
ALSO_LEAVE = (*(f":{word}" for word in LEAVE), ":q")


def converse(conversation: Conversation, banner: str) -> int:
    """Run the prompt on a terminal until it is left; the exit status is 0 whatever failed.

    Enter runs the input, or goes on to the next line while a block or bracket is open. Ctrl-C drops the
    input, or stops what runs; Ctrl-D on an empty line leaves.
    """
    from .terminal import asking

    # importing the language takes longer than the prompt: it is done in a thread while the user types
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
    """Run an input: a command of the prompt, or statements. Raises EOFError to leave the prompt, FinchError
    for a fault."""
    text = text.strip()
    word, _, rest = text.partition(" ")
    name = word.removesuffix("()")
    is_own = name in conversation.session
    if text in ALSO_LEAVE or (name in LEAVE and not rest and not is_own):
        raise EOFError
    if text.startswith((":", "?")) or (name == "help" and not is_own):
        from .directives import obey

        obey(conversation, text if text[0] in ":?" else f":help {rest}")
        return
    try:
        conversation.run(text, "<input>")
    except Exception as error:
        from .directives import meant

        if is_own or (told := meant(text, error)) is None:
            raise
        raise told from None
