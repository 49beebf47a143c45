"""The text that tells precisions apart, made for it: prose, a talk, a list, sums and code."""

TEXT = '''The ferry left the harbour at a quarter past six, while the lamps along the quay were still lit. Anna stood at
the rail with her collar turned up and counted the fishing boats that came the other way. There were eleven of
them, low in the water, and on each a man in a yellow coat was already sorting the night's catch. When the
last one had passed, she opened the letter again. It was short. Her brother had bought the mill, he wrote, and
he did not know the first thing about flour. Could she come before the end of the month, and could she bring
the old scales?

She could, of course. What she could not do was explain to him why their father had sold the mill in the first place.
The river had moved. In thirty years it had shifted its bed by almost two hundred metres, and the wheel, which once
turned from March to November, stood still for most of the summer. Nobody had noticed, because nobody had measured it.

"How far is it from the station?" asked the woman beside her.
"About four kilometres, if the bridge is open," said Anna. "If it is closed, you have to walk around the lake."
"And how will I know whether it is open?"
"There is a flag. Red means closed, green means open, and no flag at all means that the keeper is having lunch."

To repair a bicycle tyre you need:
1. two tyre levers,
2. a bowl of water to find the hole,
3. sandpaper, glue and a patch,
4. a pump, and ten minutes of patience.

If a train travels 240 kilometres in three hours, its average speed is 80 kilometres per hour. At the same speed, it
needs four and a half hours for 360 kilometres. Twelve times eleven is 132; half of that is 66, and a third of it 44.

Water boils at 100 degrees Celsius at sea level, but at about 90 degrees on a mountain of 3,000 metres, because the
pressure of the air is lower there. For the same reason, pasta takes longer to cook in a village in the Alps than it
does in Venice. The capital of France is Paris, that of Japan is Tokyo, and that of Australia, which surprises many
people, is Canberra.

def mean(values):
    """The arithmetic mean of a list of numbers."""
    if not values:
        raise ValueError("the mean of nothing is not defined")
    return sum(values) / len(values)


def variance(values):
    """The population variance of a list of numbers."""
    centre = mean(values)
    return sum((value - centre) ** 2 for value in values) / len(values)


for name in ["apple", "pear", "plum"]:
    print(f"{name}: {len(name)} letters")
'''
