"""What makes seesay's included weights: a plug-in of seesay, and commands.

Losses, which recipes name in `losses`: `class_pairs`, `other_corpus`, `nouns`, `keep`. Commands, in the order
of `train.sh`: `quantise`, `ship`, `reduce`.
"""
