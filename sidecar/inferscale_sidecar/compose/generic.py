"""Made-up, neutral memory lines: company for a user's first items when they are encoded.

An item encoded in the middle of a list behaves like one that is served in a list; one encoded
alone does not. These lines belong to nobody, so nothing of them leaks. Changing them changes every
key that used them: raise `compose.keys.POLICY` with them.
"""

GENERIC_ITEMS: tuple[str, ...] = (
    "Robin keeps a paper notebook for ideas and writes in it most evenings.",
    "The yearly review with the insurance office takes place in early March.",
    "Sam moved to a quieter flat near the river two summers ago.",
    "Dana prefers trains to flying whenever the trip is under six hours.",
    "The old bicycle in the cellar needs a new chain before spring.",
    "Kim is learning to bake bread and usually does so on Sundays.",
    "A cousin named Jo works as a nurse at the hospital in town.",
    "The favourite café closed in June and reopened under a new name.",
    "Alex plans to repaint the kitchen in a light green this autumn.",
    "Every second Thursday there is a board game night with colleagues.",
    "Charlie is allergic to walnuts but can eat almonds.",
    "The garden club asked for help with the tool shed in April.",
    "Pat finished a course in photography and bought a used camera.",
    "The cat is called Button and does not like the vacuum cleaner.",
    "Lou reads mystery novels and borrows them from the library.",
    "A weekend trip to the lake is planned for the end of September.",
)
